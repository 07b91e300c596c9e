"""Captures that a script directs."""
