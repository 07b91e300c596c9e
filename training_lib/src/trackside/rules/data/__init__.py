"""Rules about the data of a training: repeated, leaking, mixed or without scale."""
