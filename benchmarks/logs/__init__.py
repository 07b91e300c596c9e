"""Logs of other people's trainings, each read by a person first."""
