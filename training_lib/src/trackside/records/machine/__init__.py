"""Bytes of measurements of machines and of time: samples, metrics, timelines, function times."""
