"""What all rooms stand on: structures, names, source lines, fuses."""
