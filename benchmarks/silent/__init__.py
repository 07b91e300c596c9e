"""The silent errors of TrainCheck (OSDI 2025), re-made in small programs of our own."""
