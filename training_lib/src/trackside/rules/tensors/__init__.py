"""Rules about tensors: losses, gradients, weights, activations and inputs."""
