"""Trainings with a fault each, with rescue and without it, beside their sound twins."""
