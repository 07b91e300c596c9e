"""The offline report of a run: one HTML file that needs no network, no server and no script to be read."""
