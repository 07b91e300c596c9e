"""The seam that several adapters share: of libraries that make rounds, and of networks that call back."""
