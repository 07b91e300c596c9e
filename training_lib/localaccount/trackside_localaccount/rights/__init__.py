"""Evaluation of IAM's policies, and the requests that they decide about."""
