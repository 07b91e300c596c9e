"""The reactions of the actions that need more than queue, function and table. One file each, named as its Lambda.

`stacks.constructs.action_reaction` makes the rest.
"""
