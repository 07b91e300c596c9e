"""Reading of runs while they grow: steps, tensors, statistics and facts, and the window that rules see."""
