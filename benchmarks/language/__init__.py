"""Planted mistakes and sound runs of fine-tuning and reinforcement learning of language models."""
