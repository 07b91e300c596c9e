"""The declaration of one action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Term(NamedTuple):
    """One term of an action: a whole number that a rule request may set.

    least       its least value
    most        its greatest value
    meaning     its meaning, for the page of actions
    needs_aws   True: `trackside run` refuses every value but the least, which switches the term off
    """

    least: int
    most: int
    meaning: str
    needs_aws: bool = False


@dataclass(frozen=True)
class ActionUnit:
    """One action. Its Lambda and its local twin have the name of the file that declares it.

    word         the name of the action in rule requests, tags and events
    name         of this file, of the Lambda's folder (`lambdas/<name>`) and of the local twin
                 (`trackside.local.actions.<name>`)
    description  its effect, in one sentence
    in_aws       its effect in AWS, for the page of actions
    locally      its effect in `trackside run`, for the page of actions
    terms        by name: the terms that a rule request may set
    is_default   True: carried out where nobody names an action
    """

    word: str
    name: str
    description: str
    in_aws: str
    locally: str
    terms: Mapping[str, Term] = field(default_factory=dict)
    is_default: bool = False
