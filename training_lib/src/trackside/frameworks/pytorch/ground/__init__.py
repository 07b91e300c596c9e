"""The common ground of all folders here: structures, names, source lines, fuses."""
