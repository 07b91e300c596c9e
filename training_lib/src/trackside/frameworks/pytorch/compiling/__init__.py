"""torch.compile: the check if it is in use, and steps that run eagerly."""
