"""The presets of Amazon: rules in the sense of its documentation, for users who move over."""
