"""Text from outside (names of jobs, rules and tensors, messages of rules) made safe for logs, mails and messages."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return `text` on one line, with `?` for each character that could end or hide a line, or turn its direction.

    Those are control and format characters, line and paragraph ends, and lone surrogates (`str.isprintable`).
    """
    if text.isprintable():  # nearly always, and a hostile text may be long
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def ascii_only(text: str) -> str:
    """Return `plain` text in ASCII alone, for SMS, and for subjects of SNS (API_Publish)."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)
