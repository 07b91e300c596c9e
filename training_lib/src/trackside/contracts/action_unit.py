"""The declaration of one action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ActionUnit:
    """One action. Its Lambda and its local twin have the name of the file that declares it.

    word         the name of the action in rule requests, tags and events
    name         of this file, of the Lambda's folder (`lambdas/<name>`) and of the local twin
                 (`trackside.local.actions.<name>`)
    description  its effect, in one sentence
    terms        term -> its least and greatest value, for terms that a rule request may set
    is_default   True: carried out where nobody names an action
    """

    word: str
    name: str
    description: str
    terms: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_default: bool = False
