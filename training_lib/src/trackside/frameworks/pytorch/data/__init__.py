"""Facts about the batches of a training, from its DataLoaders."""
