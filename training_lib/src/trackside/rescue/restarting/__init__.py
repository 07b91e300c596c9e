"""A training that is ended at a transient fault, and started again from a good checkpoint of its own."""
