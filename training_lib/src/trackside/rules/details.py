"""Typed details of a finding, which a verdict holds as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, get_args, get_type_hints

from trackside.contracts.verdict import Finding

D = TypeVar("D", bound="Details")


class Details:
    """The base of a rule's details: a frozen dataclass of numbers, truth values and `IntEnum`s, each with a default.

    `Finding.statistics` holds them by name: True as 1, an enum as its number. None is left out, and what is left out is
    read as its default. So a rule reads what it wrote, also from the verdicts of a run that was judged before.
    """

    def numbers(self) -> dict[str, float]:
        """Return the details as numbers by name."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}

    def beside(self, finding: Finding) -> Finding:
        """Return a finding with these details beside the numbers that it has.

        Args:
            finding: A finding of the rule.
        """
        return replace(finding, statistics={**finding.statistics, **self.numbers()})

    @classmethod
    def of(cls: type[D], finding: Finding) -> D:
        """Return the details of a finding.

        Args:
            finding: A finding of the rule, new or from a verdict.
        """
        known = finding.statistics
        return cls(**{name: _kind(hint)(known[name]) for name, hint in get_type_hints(cls).items() if name in known})


def _kind(hint: Any) -> Any:
    """Return the type of a field, without None."""
    return next((one for one in get_args(hint) if one is not type(None)), hint)
