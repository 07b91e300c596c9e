"""Logs of other tools as runs: found in a folder or bucket, parsed, named, and written into a store."""
