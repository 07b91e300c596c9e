"""Text from outside (names of jobs, rules and tensors, what a rule says) made safe for logs, mails and messages."""

from __future__ import annotations


def plain(text: str) -> str:
    """`text` on one line. A character that could end a line, hide one, or turn the direction of writing is a `?`:
    control and format characters, line and paragraph ends, lone surrogates (`str.isprintable`)."""
    return "".join(character if character.isprintable() else "?" for character in text)


def ascii_only(text: str) -> str:
    """`plain`, for what carries ASCII alone: SMS, and subjects of SNS (API_Publish)."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)
