"""The repair of a problem in a script: the line to look at, the value to try first, and the change as text."""
