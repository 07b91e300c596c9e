"""What every reaction can answer, beside its own decision to act."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Nothing:
    """Nothing is to be done, and why. `surprising`: the owner may have wanted otherwise, so it is a warning."""

    reason: str
    surprising: bool = False


@dataclass(frozen=True)
class Done:
    """The action was carried out; `what` is one sentence for the log."""

    what: str
