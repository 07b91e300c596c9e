"""Stores of bytes by key: a folder, S3, memory."""
