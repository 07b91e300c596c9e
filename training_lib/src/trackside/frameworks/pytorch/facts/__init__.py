"""Model facts: modules, optimizers, losses and other parts of the program."""
