"""Detectors of facts about modules, parameters, optimizers and the program. Found by walking this folder."""
