"""Rules in the sense of Amazon's documentation, for users who move over: presets `aws-docs` and `aws-sdk`."""
