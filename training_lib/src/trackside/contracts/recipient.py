"""Recipients of notifications, and the checks of their addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What mail servers take (RFC 5321): a dot-separated local part of up to 64 characters, then a host name with a dot.
_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?P<local>{_LOCAL})@(?:{_LABEL}\.)+(?!\d+$){_LABEL}", re.ASCII)
_PHONE = re.compile(r"\+[1-9]\d{1,14}", re.ASCII)  # E.164


@dataclass(frozen=True)
class Recipient:
    """A person who receives notifications.

    protocol   "email" or "sms", as SNS calls them
    endpoint   the e-mail address or the phone number
    """

    protocol: str
    endpoint: str


def email_problem(address: object) -> str:
    """Return the fault of an e-mail address as a clause, "" for a good one."""
    if not isinstance(address, str):
        return f"must be a text, but is {address!r}."
    matched = _ADDRESS.fullmatch(address)
    if not matched or len(matched["local"]) > 64 or len(address) > 254:
        return f"{address!r} is no e-mail address, such as first.last@example.com."
    return ""


def phone_problem(number: object) -> str:
    """Return the fault of a phone number as a clause, "" for a good one."""
    if not isinstance(number, str):
        return f"must be a text, but is {number!r}."
    if not _PHONE.fullmatch(number):
        return f"{number!r} is no phone number: '+', the country's code and the digits, such as +14155550100."
    return ""
