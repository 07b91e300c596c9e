"""torch.compile: whether it is at work, and steps that run eagerly."""
