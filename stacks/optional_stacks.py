"""Stacks that a setting asks for: concern, price and end. CDK leaves them standing when the setting goes."""

from __future__ import annotations

STACK_OF = {"spoke_accounts": "Hub", "team_dashboard_host": "Dashboard", "questions": "Questions"}
PRICES = {
    "spoke_accounts": "it costs nothing, but lets events of those accounts in",
    "team_dashboard_host": "balancer and container cost about 37 USD a month",
    "questions": "only what its bucket holds costs",
}


def ending_of(stack: str) -> str:
    """Return the sentence about how a stack is ended."""
    return f"This ends it: aws cloudformation delete-stack --stack-name {stack}"
