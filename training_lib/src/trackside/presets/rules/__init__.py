"""Rules in the sense of Amazon's documentation, for users who move over: presets `aws-docs` and `aws-sdk`.

The evaluator shows them what was saved, as the original did, and not the statistics that are recorded at every step:
the steps that they count are saved ones.
"""
