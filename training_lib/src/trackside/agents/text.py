"""Texts of a run for a model that reads them: data on one line, bounded, without characters that hide or direct."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping

from trackside.contracts.run.recorded_names import plain_name

MOST_NAME, MOST_TEXT, MOST_LINE = 100, 300, 200
_DIGEST = 8
# Control, format (among them right-to-left overrides), surrogate, private use, unassigned; line and paragraph ends
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def one_line(text: str, most: int = MOST_TEXT) -> str:
    """Return a text on one line, without characters that nobody sees, and with at most `most` characters.

    Args:
        text: Any text.
        most: The largest number of characters.
    """
    clean = text
    if not (text.isascii() and text.isprintable()):
        clean = "".join(" " if unicodedata.category(each) in _UNSAFE else each for each in text)
    clean = " ".join(clean.split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def shown_name(name: str) -> str:
    """Return a name by which an agent sees and asks for something: the name itself, if it is short and plain.

    Any other one is cut and made plain, and ends in a digest, so that no two names look alike.

    Args:
        name: Name of a run, a tensor or a problem.
    """
    clean = one_line(name, MOST_NAME)
    if clean == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{one_line(name, MOST_NAME - _DIGEST - 1)}#{digest}"


def by_shown_name(names: Iterable[str]) -> Mapping[str, str]:
    """Return the names by the names that agents see."""
    return {shown_name(name): name for name in names}


def sentence(text: str, subjects: Iterable[str] = (), most: int = MOST_TEXT) -> str:
    """Return a sentence in which the names of a run stand in quotation marks.

    Args:
        text: The sentence.
        subjects: Names that may be in it.
        most: The largest number of characters.
    """
    names = {shown for name in subjects for shown in (name, plain_name(name)) if shown}
    for name in sorted(names, key=len, reverse=True):
        quoted = f'"{shown_name(name)}"'
        if name in text and f'"{name}"' not in text:
            text = text.replace(name, quoted)
    return one_line(text, most)
