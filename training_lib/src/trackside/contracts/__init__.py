"""Data types that the training half, the analysis half, the Lambdas and the stacks exchange.

Standard library only. Nothing here reads a file of a user, the network, the clock or the environment.
"""
