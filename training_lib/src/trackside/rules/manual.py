"""The manual of a rule: the sections of its docstring, and its advice, for its page and `trackside rules show`."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

from trackside.rules.rule import Rule

SECTIONS = ("Why it matters", "How it decides", "Example", "References")

_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Manual:
    """The sections of a rule's docstring as Markdown, without their headings."""

    summary: str
    why_it_matters: str
    how_it_decides: str
    example: str
    references: str
    what_to_do: str

    @property
    def sections(self) -> tuple[tuple[str, str], ...]:
        """(heading, text), in the order of a page."""
        return (
            ("Why it matters", self.why_it_matters),
            ("How it decides", self.how_it_decides),
            ("What to do", self.what_to_do),
            ("Example", self.example),
            ("References", self.references),
        )

    @property
    def code(self) -> tuple[str, ...]:
        """The Python blocks of the example. They run as they stand."""
        return tuple(_CODE.findall(self.example))


class ManualError(ValueError):
    """The docstring of a rule is no manual."""


def read_manual(rule: type[Rule]) -> Manual:
    """Return the manual in a rule's docstring, and its advice.

    Errors: `ManualError` if a section is missing, empty, unknown or out of order.
    """
    doc = inspect.cleandoc(rule.__doc__ or "")
    summary, *rest = re.split(r"^(\S.*):$\n?", doc, flags=re.MULTILINE)
    headings = tuple(rest[::2])
    if headings != SECTIONS:
        found, needed = ", ".join(headings) or "none", ", ".join(SECTIONS)
        raise ManualError(f"{_place(rule)} has the sections {found}; they must be {needed}, in this order.")
    texts = [textwrap.dedent(text).strip() for text in rest[1::2]]
    empty = [heading for heading, text in zip(headings, texts, strict=True) if not text]
    if empty:
        raise ManualError(f"{_place(rule)} has nothing under {', '.join(empty)}.")
    steps = [f"{number}. {step}" for number, step in enumerate(rule.what_to_do, start=1)]
    return Manual(summary.strip(), *[*texts, "\n".join(steps)])


def _place(rule: type[Rule]) -> str:
    return f"{rule.__module__}: the docstring of {rule.__qualname__}"
