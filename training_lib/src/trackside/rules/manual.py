"""The manual of a rule: the sections of its docstring. The rules' pages and `trackside rules show` print it."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

from trackside.rules.rule import Rule

SECTIONS = ("Why it matters", "How it decides", "What to do", "Example", "References")

_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Manual:
    """The sections of a rule's docstring as Markdown, without their headings."""

    summary: str
    why_it_matters: str
    how_it_decides: str
    what_to_do: str
    example: str
    references: str

    @property
    def sections(self) -> tuple[tuple[str, str], ...]:
        """(heading, text) in the order of `SECTIONS`."""
        texts = (self.why_it_matters, self.how_it_decides, self.what_to_do, self.example, self.references)
        return tuple(zip(SECTIONS, texts, strict=True))

    @property
    def code(self) -> tuple[str, ...]:
        """The Python blocks of the example. They run as they stand."""
        return tuple(_CODE.findall(self.example))


def read_manual(rule: type[Rule]) -> Manual:
    """Return the manual in a rule's docstring.

    Errors: `ValueError` if a section is missing, empty, unknown or out of order.
    """
    doc = inspect.cleandoc(rule.__doc__ or "")
    summary, *rest = re.split(r"^(\S.*):$\n?", doc, flags=re.MULTILINE)
    headings = tuple(rest[::2])
    if headings != SECTIONS:
        raise ValueError(f"{rule.__qualname__}: the sections are {headings}, but must be {SECTIONS}.")
    texts = [textwrap.dedent(text).strip() for text in rest[1::2]]
    empty = [heading for heading, text in zip(headings, texts, strict=True) if not text]
    if empty:
        raise ValueError(f"{rule.__qualname__}: nothing stands under {', '.join(empty)}.")
    return Manual(summary.strip(), *texts)
