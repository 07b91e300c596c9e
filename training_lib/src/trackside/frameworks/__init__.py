"""Adapters of frameworks, the seam that they share, and the start-up that attaches them."""
