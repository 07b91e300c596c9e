"""The base classes of rules about networks, and of those that need the hook's facts about a program."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.rules.rule import Rule
from trackside.trial.window import Window


@dataclass(frozen=True)
class NetworkRule(Rule):
    """A rule about networks that needs no saved values, and judges at its own pace."""

    is_of_networks = True
    needs = ()
    paced = True


@dataclass(frozen=True)
class PyTorchRule(NetworkRule):
    """A rule about what PyTorch's adapter alone records."""

    only_of = ("pytorch",)


@dataclass(frozen=True)
class ProgramRule(NetworkRule):
    """A rule that reads facts about the program."""

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about the program."""
        return "" if window.facts is not None else "what a hook of this version tells of the program"


@dataclass(frozen=True)
class LossRule(NetworkRule):
    """A rule that reads facts about the program's losses."""

    def lacks(self, window: Window) -> str:
        """Return a clause if the hook recorded no facts about losses."""
        is_known = window.facts is not None and window.facts.losses
        return "" if is_known else "facts about the program's losses, which Trackside's hook records"
