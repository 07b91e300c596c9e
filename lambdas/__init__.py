"""The reactions: one folder each, named verb_object, with handler.py, logic.py and settings.py."""
