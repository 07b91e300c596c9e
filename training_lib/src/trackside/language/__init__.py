"""Language models: what judges their fine-tuning and their reinforcement learning."""
