"""The explicit API for JAX: flax, optax, or a loop of the program's own."""
