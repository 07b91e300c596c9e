"""The form of a question about a run, what it is answered from, and clauses that several share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trackside.contracts.cached_property import cached_property
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.situation.constants import VISIBLE
from trackside.situation.measurements import Evidence
from trackside.trial.window import Window

Answer = str | bool | None
"""A clause with numbers, or True: present. False: absent. None: unknown."""


@dataclass(frozen=True)
class Known:
    """The measurements and facts of one window, and the findings of the rule that suspects; () for all others."""

    window: Window
    findings: tuple[Finding, ...] = ()

    @cached_property
    def seen(self) -> Evidence:
        """The numbers that distinguish causes."""
        return Evidence(self.window)

    @property
    def lead(self) -> Finding:
        """The worst finding."""
        return self.findings[0]

    @property
    def has_facts(self) -> bool:
        """True if facts about the program were captured."""
        return self.window.facts is not None


@dataclass(frozen=True)
class Question:
    """A question about a run, a callable.

    name      its name, in words with hyphens: its row in the table of weights
    answer    returns the answer; its docstring is the text
    supports  causes that it is expected to support, before anything is learned
    refutes   causes that are impossible where it is absent
    explains  causes that are only signs of its first supported cause where it is present
    outranks  causes that come after its first supported cause where it is present, however much speaks for them
    proves    causes that are named only where it, another question that proves them, or a rule shows them
    """

    name: str
    answer: Callable[[Known], Answer]
    supports: tuple[Cause, ...] = ()
    refutes: tuple[Cause, ...] = ()
    explains: tuple[Cause, ...] = ()
    outranks: tuple[Cause, ...] = ()
    proves: tuple[Cause, ...] = ()

    def __call__(self, known: Known) -> Answer:
        """Return the answer: present, absent or unknown."""
        return self.answer(known)

    @property
    def text(self) -> str:
        """The question for docs and readers."""
        return (self.answer.__doc__ or "").partition(".")[0]


def question(
    *,
    supports: tuple[Cause, ...] = (),
    refutes: tuple[Cause, ...] = (),
    explains: tuple[Cause, ...] = (),
    outranks: tuple[Cause, ...] = (),
    proves: tuple[Cause, ...] = (),
) -> Callable[[Callable[[Known], Answer]], Question]:
    """Return a decorator that makes a question of the function that answers it; see `Question`."""
    causes = supports, refutes, explains, outranks, proves
    return lambda answer: Question(answer.__name__.replace("_", "-"), answer, *causes)


def grown(what: str, times: float) -> str:
    """Return a clause about a growth.

    Args:
        what: The growing thing, in the plural.
        times: The size now over the size at first; may be infinite or NaN.
    """
    return f"{what} are {times:.3g} times as large as at first" if math.isfinite(times) else f"{what} are not finite"


def times_as_large(times: float) -> str:
    """Return a clause about updates beside those of the recent past.

    Args:
        times: Their size over that of the usual ones.
    """
    return f"updates of the weights are {times:.3g} times as large as in the 50 steps before"


def changed(ratio: float) -> str:
    """Return a clause about the newest updates of the weights.

    Args:
        ratio: Their relative size.
    """
    return f"a step changes weights by {f'{ratio:.1%}' if ratio >= VISIBLE else f'{ratio:.2g}'} of their size"


def changed_at_first(ratio: float) -> str:
    """Return a clause about the first updates of the weights.

    Args:
        ratio: Their relative size.
    """
    return f"early steps changed weights by {ratio:.0%} of their size"
