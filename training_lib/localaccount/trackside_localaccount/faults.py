"""The fault switch: what goes wrong in an account, drawn from a seed, and what of it has gone wrong so far.

It decides, and does nothing: whoever delivers an event or answers a call asks it. Equal seeds and equal questions get
equal answers; threads that ask in another order get others.
"""

from __future__ import annotations

import dataclasses
import random
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_type_hints

from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean


class CallFault(str, Enum):
    """The fates of a function's call to a service."""

    OUTAGE = "outage"  # the service answers nobody
    THROTTLE = "throttle"  # too many calls: refused, nothing was done
    CRASH_BEFORE = "crash_before"  # the function's process dies before the call
    CRASH_AFTER = "crash_after"  # it was done, and the function's process dies before it hears so
    LOST_ANSWER = "lost_answer"  # it was done, and the function hears of an error


@dataclass(frozen=True)
class Faults:
    """Probabilities between 0 and 1, for each delivery of an event, call of a function or message of a batch.

    duplicate      a delivery is doubled
    drop           an event of an AWS service (source `aws.*`) does not arrive: those are best effort. What a program
                   puts onto a bus is never dropped, for EventBridge promises to deliver that
    delay_seconds  a delivery waits up to so long, so that events overtake one another
    throttle, crash_before, crash_after, lost_answer   see `CallFault`
    late, late_seconds   a delivery waits up to so long: hours, as after an outage
    redeliver      a message that a function has done comes back (SQS, too, delivers at least once)
    stale          a read that need not be consistent returns what it returned before; for simulations, as services here
                   are always consistent
    outage         services that are down, as boto3 calls them: `sns`, `dynamodb`, ...
    """

    seed: int = 0
    duplicate: float = 0.0
    drop: float = 0.0
    delay_seconds: float = 0.0
    throttle: float = 0.0
    crash_before: float = 0.0
    crash_after: float = 0.0
    lost_answer: float = 0.0
    late: float = 0.0
    late_seconds: float = 6 * 3600.0
    redeliver: float = 0.0
    stale: float = 0.0
    outage: tuple[str, ...] = ()

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Faults:
        """Return the faults that a mapping names. Errors: `ConfigurationError` with every problem at once."""
        types, problems, values = get_type_hints(cls), [], {}
        for name, value in given.items():
            if name not in types:
                problems.append(Problem(name, "is no fault.", did_you_mean(name, types)))
                continue
            try:
                values[name] = _READERS[types[name]](value)
            except (TypeError, ValueError):
                problems.append(Problem(name, f"cannot be {value!r}."))
                continue
            if types[name] is float and not 0.0 <= values[name] <= (1e6 if name.endswith("_seconds") else 1.0):
                problems.append(
                    Problem(name, f"must be a probability, but is {value!r}.", "Give a number from 0 to 1.")
                )
        if problems:
            raise ConfigurationError(problems, subject="The faults")
        return cls(**values)

    @classmethod
    def from_text(cls, text: str) -> Faults:
        """`seed=3 throttle=0.1 outage=sns,sqs`. Errors: as `from_mapping`."""
        pairs = dict(word.partition("=")[::2] for word in re.split(r"[\s;]+", text.strip()) if word)
        return cls.from_mapping(pairs)

    def to_mapping(self) -> dict[str, Any]:
        """Return the mapping that `from_mapping` reads."""
        return {**dataclasses.asdict(self), "outage": list(self.outage)}


class FaultSwitch:
    """Any thread may ask and switch. `counts`: what has gone wrong, by its name."""

    def __init__(self, faults: Faults | None = None) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._dropped: set[str] = set()
        self.set(faults or Faults())

    @property
    def faults(self) -> Faults:
        """The faults that are switched on."""
        return self._faults

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each fault has happened since the switch was made."""
        with self._lock:
            return {**self._counts, "drop": len(self._dropped)}

    def set(self, faults: Faults) -> None:
        """From now on these, drawn anew from their seed."""
        with self._lock:
            self._faults = faults
            self._random = random.Random(faults.seed)  # noqa: S311 - faults must be repeatable, not secret

    def drops(self, source: str, event_id: str) -> bool:
        """Return True if the event never reaches its bus. Equal for each rule of the bus, and for each call."""
        with self._lock:
            if not self._faults.drop or not source.startswith("aws."):
                return False
            drawn = random.Random(f"{self._faults.seed}/{event_id}").random()  # noqa: S311 - as above
            if drawn < self._faults.drop:
                self._dropped.add(event_id)
            return drawn < self._faults.drop

    def delivery(self) -> list[float]:
        """After how many seconds each copy of a delivery arrives."""
        with self._lock:
            faults = self._faults
            copies = 2 if self._draws("duplicate", faults.duplicate) else 1
            pauses = [self._random.uniform(0.0, faults.delay_seconds) for _ in range(copies)]
            if faults.late:
                pauses = [p + self._random.uniform(0.0, self._lateness(faults)) for p in pauses]
            self._counts["delay"] += sum(pause > 0 for pause in pauses)
            return pauses

    def call(self, service: str) -> CallFault | None:
        """Return the fate of a function's call to that service."""
        with self._lock:
            if service in self._faults.outage:
                self._counts[CallFault.OUTAGE.value] += 1
                return CallFault.OUTAGE
            drawn = self._random.random()
            for fault in (CallFault.THROTTLE, CallFault.CRASH_BEFORE, CallFault.CRASH_AFTER, CallFault.LOST_ANSWER):
                drawn -= getattr(self._faults, fault.value)
                if drawn < 0:
                    self._counts[fault.value] += 1
                    return fault
            return None

    def redelivers(self) -> bool:
        """True if a message that is done comes back."""
        with self._lock:
            return self._draws("redeliver", self._faults.redeliver)

    def is_stale(self) -> bool:
        """True if a read that need not be consistent returns what it returned before."""
        with self._lock:
            return bool(self._faults.stale) and self._draws("stale", self._faults.stale)

    def _lateness(self, faults: Faults) -> float:
        return faults.late_seconds if self._draws("late", faults.late) else 0.0

    def _draws(self, name: str, probability: float) -> bool:
        happens = self._random.random() < probability
        self._counts[name] += happens
        return happens


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in (value.split(",") if isinstance(value, str) else value) if name)


_READERS: Mapping[Any, Any] = {int: int, float: float, tuple[str, ...]: _names}
