"""The choice of rules for a run: by words, files, a program, the project's settings."""
