"""Optimizers: settings, state, skipped steps, gradients before clipping."""
