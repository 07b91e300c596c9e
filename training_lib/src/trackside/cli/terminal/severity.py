"""The look of a severity: one symbol and one style for each, on every screen."""

from __future__ import annotations

from trackside.contracts.verdict import Severity

_SYMBOLS = {Severity.CRITICAL: ("✖", "X"), Severity.WARNING: ("▲", "!"), Severity.INFO: ("●", "i")}
STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


def symbol_of(severity: Severity, *, ascii_only: bool) -> str:
    """Return the symbol of a severity: `✖`, `▲`, `●`, or a letter of ASCII."""
    symbol, ascii_symbol = _SYMBOLS[severity]
    return ascii_symbol if ascii_only else symbol
