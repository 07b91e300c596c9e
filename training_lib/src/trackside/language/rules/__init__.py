"""Rules about the fine-tuning and reinforcement learning of language models: rewards, answers, preferences, labels."""
