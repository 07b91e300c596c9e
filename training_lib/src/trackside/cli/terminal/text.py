"""Text from outside (names of tensors, messages of rules) made safe to print."""

from __future__ import annotations

import unicodedata

# Control, format (among them right-to-left overrides), surrogate, private use, unassigned; line and paragraph ends
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str, *, encoding: str = "utf-8") -> str:
    """Return `text` on one line. Characters that a terminal might obey, or `encoding` lacks, become escapes."""
    safe = "".join(
        _escaped(character) if unicodedata.category(character) in _UNSAFE else character for character in text
    )
    return safe.encode(encoding, "backslashreplace").decode(encoding)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii") if character != "\n" else " "
