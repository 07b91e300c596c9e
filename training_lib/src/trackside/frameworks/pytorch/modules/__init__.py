"""Modules: their calls, roles, inputs and outputs."""
