"""The receivers of the problems of a training: the terminal, trackers, and objects of the user."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Protocol

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.issue_group import IssueGroup
from trackside.integrations.issue_text import found_clause, issue_card, reservation
from trackside.local.stderr_message import write_message

LIVE_SINKS = ("wandb", "mlflow", "trackio")


class IssueSink(Protocol):
    """A receiver of the problems of one training. A failure in it is logged, and the training goes on."""

    def issue(self, group: IssueGroup) -> None:
        """Receive a problem when it is found, and again each time that it becomes graver."""

    def finish(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Receive all problems and the address of the run, once nothing more will be judged."""


def sink_of(target: str | IssueSink) -> IssueSink:
    """Return the sink for the live run of a tracker; an object as it is. Errors: `ConfigurationError`."""
    if not isinstance(target, str):
        return target
    if target not in LIVE_SINKS:
        problem = Problem("report_to", f"{target!r} is unknown.", did_you_mean(target, LIVE_SINKS))
        raise ConfigurationError([problem], subject="The callback")
    sink: IssueSink = import_module(f"trackside.integrations.{target}").Sink()
    return sink


class StderrSink:
    """Prints cards on stderr."""

    def issue(self, group: IssueGroup) -> None:
        """Print the card, above any progress bar."""
        write_message(f"\n{issue_card(group)}\n")

    def finish(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Print one line with the result."""
        place = location if "://" in location else os.path.relpath(location)
        words = "" if groups else reservation(location)
        write_message(f"trackside: {words or f'{found_clause(groups)}: trackside findings {place}'}")
