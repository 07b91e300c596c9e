"""Checks of objects' keys, equal in every store: a key never leads out of its location."""

from __future__ import annotations

import re

from trackside.contracts.errors import StorageError

PARTIAL_SUFFIX = ".tmp"  # smdebug's suffix for files still being written; readers of both pass over them

_PLAIN_KEY = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)  # nearly all keys: one fast check


def checked_key(key: str) -> str:
    """Return the key itself.

    Args:
        key: The text to check.

    Raises:
        StorageError: It is no key; the message gives the reason of `complaint`.
    """
    if _PLAIN_KEY.fullmatch(key) and not key.endswith(PARTIAL_SUFFIX):
        return key
    wrong = complaint(key)
    if wrong:
        raise StorageError(f"{key!r} is not a storage key: {wrong}. Keys look like 'index/000000000/name.json'.")
    return key


def checked_prefix(prefix: str) -> str:
    """Return the prefix itself.

    Args:
        prefix: The text to check; it may end anywhere in a key.

    Raises:
        StorageError: No key begins with it.
    """
    folder, slash, _ = prefix.rpartition("/")
    wrong = (complaint(f"{folder}/x") if slash else "") or _complaint_about_text(prefix)
    if wrong:
        raise StorageError(f"{prefix!r} is not the beginning of a storage key: {wrong}.")
    return prefix


def complaint(key: str) -> str:
    """Return the reason why a text is no key, or "" if it is one.

    Args:
        key: The text to check.
    """
    if not key:
        return "it is empty"
    if key.startswith("/"):
        return "it is absolute"
    if any(part in {"", ".", ".."} for part in key.split("/")):
        return "it has an empty part, '.' or '..'"
    if key.endswith(PARTIAL_SUFFIX):
        return f"names that end in {PARTIAL_SUFFIX!r} are reserved for partial writes"
    return _complaint_about_text(key)


def _complaint_about_text(text: str) -> str:
    if "\0" in text or "\\" in text:  # a backslash would be a separator on Windows
        return "it has a NUL or a backslash"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    return ""


def checked_range(start: int, length: int | None) -> None:
    """Check a byte range.

    Args:
        start: The first byte.
        length: The number of bytes; None for all that follow.

    Raises:
        StorageError: One of the two is negative.
    """
    if start < 0 or (length is not None and length < 0):
        raise StorageError(f"Bytes from {start}, {length} long, cannot be read: both must be 0 or more.")
