"""The deployment: one stack per concern. A stack composes, a construct creates."""
