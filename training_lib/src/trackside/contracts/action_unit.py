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
    """One action. Its local twin has the name of the file that declares it, and so has its Lambda, if it has its own.

    word         the name of the action in rule requests, tags and events
    name         of this file, of the local twin (`trackside.local.actions.<name>`) and of the Lambda's folder
    carried_out_by  folder of another action's Lambda (`lambdas/<...>`) that carries it out; "": its own
    description  its effect, in one sentence
    in_aws       its effect in AWS, for the page of actions
    locally      its effect in `trackside run`, for the page of actions
    terms        by name: the terms that a rule request may set
    is_default   True: carried out where nobody names an action
    stops        True: it ends the training, so only a critical issue may ask for it, and it comes last
    """

    word: str
    name: str
    description: str
    in_aws: str
    locally: str
    terms: Mapping[str, Term] = field(default_factory=dict)
    is_default: bool = False
    stops: bool = False
    carried_out_by: str = ""

    @property
    def reaction(self) -> str:
        """The folder in `lambdas/` of the function that carries it out."""
        return self.carried_out_by or self.name
