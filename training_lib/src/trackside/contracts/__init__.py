"""The words: what the training half, the analysis half, the Lambdas and the stacks say to one another.

Standard library only. Nothing here reads a file of a user, the network, the clock or the environment.
"""
