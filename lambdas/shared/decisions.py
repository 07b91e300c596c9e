"""The answers that every reaction can give, beside its own decision to act."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Nothing:
    """The decision to do nothing, with its reason.

    With `surprising`, the owner may have wanted otherwise: a warning.
    """

    reason: str
    surprising: bool = False


@dataclass(frozen=True)
class Done:
    """An action that was carried out; `what` is one sentence for the log."""

    what: str
