"""The ground of capture: the guard, the script's own lines, free memory."""
