"""Redelivery: dead letters, and verdicts from the archive of the deployment's bus."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from trackside.cloud.calls import Calls
from trackside.cloud.deployment import Deployment
from trackside.contracts.errors import ConfigurationError, LocationNotFoundError, Problem, did_you_mean

_QUEUE, _DEAD_LETTERS, _BUS = "QueueUrl", "DeadLettersUrl", "EventBusName"
REMEMBERED_DAYS = 14  # after that a replayed issue acts once more
MOST_ARCHIVES = 100


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of one function.

    name       as in lambdas/
    url        the queue of dead letters
    queue_url  the function's queue
    count      approximate number of dead letters
    """

    name: str
    url: str
    queue_url: str
    count: int


@dataclass(frozen=True)
class Replay:
    """A replay of the events between two moments. `is_new`: False if the same one was requested before."""

    name: str
    bus_arn: str
    is_new: bool


class Redelivery:
    """The redelivery of one deployment in this account and region. All methods raise the errors of `RunTable`.

    environment  the deployment; "": the one without
    client       `client(service)` makes boto3's clients
    clock        returns seconds since the epoch
    """

    def __init__(
        self,
        *,
        environment: str = "",
        client: Callable[[str], Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._calls, self._clock = Calls(client), clock
        self._outputs = Deployment(self._calls, environment=environment).all_outputs

    def dead_letters(self) -> tuple[DeadLetters, ...]:
        """Return the dead letters of every function, by name."""
        outputs = self._outputs
        found = []
        for output, url in sorted(outputs.items()):
            title = output.removesuffix(_DEAD_LETTERS)
            if title != output and f"{title}{_QUEUE}" in outputs:
                count = int(self._attribute(url, "ApproximateNumberOfMessages"))
                found.append(DeadLetters(_snake(title), url, outputs[f"{title}{_QUEUE}"], count))
        return tuple(found)

    def choose(self, names: Sequence[str]) -> tuple[DeadLetters, ...]:
        """Return the dead letters of these functions; none named: all.

        Raises:
            ConfigurationError: A name is unknown.
        """
        every = {one.name: one for one in self.dead_letters()}
        problems = [
            Problem(name, "is no function with dead letters.", did_you_mean(name, every))
            for name in names
            if _snake(name) not in every
        ]
        if problems:
            raise ConfigurationError(problems, subject="What to redrive")
        return tuple(one for one in every.values() if not names or one.name in map(_snake, names))

    def redrive(self, letters: DeadLetters) -> str:
        """Start to move the letters back into their function's queue. Return the id of the task.

        Events that EventBridge could not deliver go to that queue too, because they were never in another.
        """
        answer = self._call(
            "sqs",
            "start_message_move_task",
            SourceArn=self._attribute(letters.url, "QueueArn"),
            DestinationArn=self._attribute(letters.queue_url, "QueueArn"),
        )
        return str(answer["TaskHandle"])

    def replay(self, first: datetime, last: datetime, *, archive: str = "", act_again: bool = False) -> Replay:
        """Send every verdict of the bus from `first` to `last` once more, unchanged.

        The same two moments are replayed once, unless that failed: a second call finds the first.

        Args:
            first: Begin of the range.
            last: End of the range.
            archive: The archive's name; "": the only one of the bus.
            act_again: Allow a range that began more than 14 days ago: actions of that time are forgotten, and happen
                again.

        Raises:
            ConfigurationError: The range cannot be replayed, or several archives could be meant.
        """
        now = datetime.fromtimestamp(self._clock(), tz=timezone.utc)
        self._check(first, last, now=now, act_again=act_again)
        if _BUS not in self._outputs:
            raise LocationNotFoundError(
                f"No stack here has an output {_BUS}", advice="deploy this version of Trackside"
            )
        bus_arn = str(self._call("events", "describe_event_bus", Name=self._outputs[_BUS])["Arn"])
        source = self._call("events", "describe_archive", ArchiveName=self._archive(bus_arn, archive))
        name = f"trackside-{first:%Y%m%dT%H%M%S}-{last:%Y%m%dT%H%M%S}"
        known = self._call("events", "list_replays", NamePrefix=name)["Replays"]
        is_new = all(each["State"] in {"FAILED", "CANCELLED"} for each in known)
        if is_new:
            name += f"-again-{len(known)}" if known else ""  # a name is taken for good
            self._call(
                "events",
                "start_replay",
                ReplayName=name,
                EventSourceArn=source["ArchiveArn"],
                EventStartTime=first,
                EventEndTime=last,
                Destination={"Arn": bus_arn},
            )
        return Replay(name, bus_arn, is_new=is_new)

    def _archive(self, bus_arn: str, wanted: str) -> str:
        answer = self._call("events", "list_archives", EventSourceArn=bus_arn, Limit=MOST_ARCHIVES)
        names = [str(each["ArchiveName"]) for each in answer["Archives"]]
        if not names:
            raise LocationNotFoundError(f"The bus {self._outputs[_BUS]} has no archive")
        if wanted in names or (not wanted and len(names) == 1):
            return wanted or names[0]
        why = f"{wanted!r} is no archive of the bus." if wanted else f"the bus has {len(names)}: {', '.join(names)}."
        problem = Problem(
            "--archive", why, did_you_mean(wanted, names) if wanted else f"Name one: --archive {names[0]}"
        )
        raise ConfigurationError([problem], subject="The replay")

    def _check(self, first: datetime, last: datetime, *, now: datetime, act_again: bool) -> None:
        problems = []
        if first >= last:
            problems.append(Problem("--from", f"{first:%Y-%m-%d %H:%M} is not before --to.", "Turn them round."))
        if last > now:
            problems.append(Problem("--to", f"{last:%Y-%m-%d %H:%M} is still to come.", "Give a moment that is past."))
        if first < now - timedelta(days=REMEMBERED_DAYS) and not act_again:
            why = (
                f"lies more than {REMEMBERED_DAYS} days back: actions of then are not on record, and would be repeated."
            )
            problems.append(Problem("--from", why, "Choose a later moment, or add --act-again."))
        if problems:
            raise ConfigurationError(problems, subject="The replay")

    def _attribute(self, url: str, name: str) -> str:
        answer = self._call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=[name])
        return str(answer["Attributes"][name])

    def _call(self, service: str, operation: str, **request: Any) -> Any:
        return self._calls.call(service, operation, **request)


def moment(text: str) -> datetime:
    """Return the moment in a text such as `2026-11-21T14:00`, in UTC unless it has a zone.

    Raises:
        ValueError: It is no moment.
    """
    given = datetime.fromisoformat(re.sub("Z$", "+00:00", text.strip()))
    return given.astimezone(timezone.utc) if given.tzinfo else given.replace(tzinfo=timezone.utc)


def _snake(name: str) -> str:
    """Return the name in snake case: `StopTraining` and `stop-training` become `stop_training`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).replace("-", "_").lower()
