"""From tensors to arrays of our own."""
