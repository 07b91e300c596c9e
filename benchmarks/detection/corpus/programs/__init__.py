"""The programs, a file for each kind of data or of loop."""
