"""Losses: their names, their parts, and their inputs."""
