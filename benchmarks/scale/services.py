"""AWS's services as far as they matter at scale: limits, queues that start functions, and clients that try again."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.retries.adaptive import RateClocker
from botocore.retries.throttling import CubicCalculator

from benchmarks.scale.clock import Clock, Process
from benchmarks.scale.quotas import BURST_SECONDS, Quotas

ATTEMPTS_OF_A_CALL = 4  # lambdas.shared.clients.PATIENT
LEAST_RATE = 0.5  # botocore.retries.bucket.TokenBucket
Steps = Generator[float, None, Any]


class CallFailedError(Exception):
    """A call failed for good, so its message returns to the queue. The name is that of AWS's error."""

    def __init__(self, operation: str, code: str) -> None:
        super().__init__(f"{operation}: {code}")
        self.operation, self.code = operation, code


class FunctionKilledError(Exception):
    """The function's time was over."""


class Limit:
    """At most `a_second` calls, with a burst: a token bucket."""

    def __init__(self, a_second: float, clock: Clock) -> None:
        self._rate, self._clock = a_second, clock
        self._most = max(1.0, a_second * BURST_SECONDS)
        self._tokens, self._at = self._most, clock.now

    def allows(self) -> bool:
        """Takes a token, if there is one."""
        now = self._clock.now
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _BotocoreClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def current_time(self) -> float:
        return self._clock.now


class Patience:
    """botocore's adaptive retry mode for one client: its own arithmetic, on the simulated clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cubic = CubicCalculator(starting_max_rate=LEAST_RATE, start_time=clock.now)
        self._measured = RateClocker(_BotocoreClock(clock))
        self._is_on = False
        self._rate, self._tokens, self._at = LEAST_RATE, 0.0, clock.now

    def seconds_to_wait(self) -> float:
        """Before the next call may be sent."""
        if not self._is_on:
            return 0.0
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def saw(self, *, throttled: bool) -> None:
        """The answer of a call."""
        measured, now = self._measured.record(), self._clock.now
        if throttled:
            rate = self._cubic.error_received(min(measured, self._rate) if self._is_on else measured, now)
            self._is_on = True
        else:
            rate = self._cubic.success_received(now)
        self._refill()
        self._rate = max(LEAST_RATE, min(rate, 2 * measured))
        self._tokens = min(self._tokens, max(1.0, self._rate))

    def _refill(self) -> None:
        now = self._clock.now
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now


@dataclass
class World:
    """What all parts share: the clock, chance, the limits, and what is counted."""

    clock: Clock
    chance: random.Random
    quotas: Quotas
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # of functions, by name
    functions_at_once: int = 0
    limits: dict[str, Limit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        q = self.quotas
        rates = {
            "CreateProcessingJob": q.create_processing_a_second,
            "StopTrainingJob": q.stop_training_a_second,
            "Describe": q.describe_a_second,
            "ListTrainingJobs": q.list_training_a_second,
            "GetParameter": q.get_parameter_a_second,
        }
        self.limits = {name: Limit(rate, self.clock) for name, rate in rates.items()}

    def around(self, seconds: float, *, spread: float = 0.3) -> float:
        """A time that scatters around its median, as such times do (log-normal)."""
        return seconds * math.exp(self.chance.gauss(0.0, spread))


class Environment:
    """One warm copy of a function, with its clients."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self.name = world, name
        self._patience: dict[str, Patience] = {}
        self.started: set[str] = set()  # lambdas.start_evaluation.started

    def call(self, operation: str, *, service: str = "sagemaker", counts: int = 1) -> Steps:
        """One call of a limited operation, with the client's retries. Errors: `CallFailedError`."""
        world = self._world
        patience = self._patience.setdefault(service, Patience(world.clock))
        for attempt in range(ATTEMPTS_OF_A_CALL):
            if wait := patience.seconds_to_wait():
                yield wait
            slow = service == "sagemaker"
            yield world.around(world.quotas.sagemaker_call_seconds if slow else world.quotas.small_call_seconds)
            world.counts[f"call {operation}"] += counts
            allowed = world.limits[operation].allows()
            patience.saw(throttled=not allowed)
            if allowed:
                return
            world.counts[f"throttled {operation}"] += 1
            if attempt < ATTEMPTS_OF_A_CALL - 1:
                yield world.chance.random() * min(2**attempt, 20)
        raise CallFailedError(operation, "ThrottlingException")

    def small_calls(self, **counts: int) -> Steps:
        """Calls that are never refused at this scale: DynamoDB, S3, SNS, SQS."""
        for operation, number in counts.items():
            self._world.counts[f"call {operation}"] += number
        yield self._world.around(self._world.quotas.small_call_seconds * sum(counts.values()))


@dataclass
class Message:
    body: Any
    sent_at: float
    received: int = 0
    first_sent_at: float = 0.0


React = Callable[[Any, Environment], Steps]


class ReactionQueue:
    """A queue and the function behind it: `stacks.constructs.queue_backed_function`."""

    def __init__(
        self,
        world: World,
        name: str,
        react: React,
        *,
        batch_size: int,
        most_at_once: int | None,
        attempts: int,
        visibility_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self.name, self._world, self._react = name, world, react
        self._batch_size, self._most_at_once, self._attempts = batch_size, most_at_once, attempts
        self._visibility_seconds, self._timeout_seconds = visibility_seconds, timeout_seconds
        self._ready: deque[Message] = deque()
        self._idle: list[Environment] = []
        self._running = 0
        self._busy_since: float | None = None
        self._looks_again = False
        self.dead: list[Message] = []
        self.handled = 0
        self.oldest_seconds = 0.0
        self.most_ready = 0
        self.most_running = 0
        self.failures: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        return len(self._ready) + self._running

    def send(self, body: Any, *, delay_seconds: float = 0.0) -> None:
        self._world.counts["call SQS"] += 1
        now = self._world.clock.now
        message = Message(body, now + delay_seconds, first_sent_at=now + delay_seconds)
        self._world.clock.after(delay_seconds, lambda: self._appear(message))

    def _appear(self, message: Message) -> None:
        self._ready.append(message)
        self.most_ready = max(self.most_ready, len(self._ready))
        self._pump()

    def _room(self) -> int:
        """How many more batches may be worked on now."""
        world, quotas = self._world, self._world.quotas
        if self._busy_since is None:
            self._busy_since = world.clock.now
        minutes = (world.clock.now - self._busy_since) / 60
        most = quotas.lambda_pollers + int(minutes * quotas.lambda_pollers_a_minute)
        most = min(most, self._most_at_once or quotas.lambda_at_once)
        return min(most - self._running, quotas.lambda_at_once - world.functions_at_once)

    def _pump(self) -> None:
        while self._ready and self._room() > 0:
            batch = [self._ready.popleft() for _ in range(min(self._batch_size, len(self._ready)))]
            self._running += 1
            self._world.functions_at_once += 1
            self.most_running = max(self.most_running, self._running)
            self._world.clock.start(self._invoke(batch))
        if not self._ready and not self._running:
            self._busy_since = None
        if self._ready and not self._looks_again:
            self._looks_again = True
            self._world.clock.after(1.0, self._look_again)

    def _look_again(self) -> None:
        self._looks_again = False
        self._pump()

    def _invoke(self, batch: list[Message]) -> Process:
        world, began = self._world, self._world.clock.now
        world.counts[f"invocations {self.name}"] += 1
        world.counts["call SQS"] += 2  # receive, delete
        for message in batch:
            message.received += 1
            self.oldest_seconds = max(self.oldest_seconds, began - message.first_sent_at)
        environment = self._idle.pop() if self._idle else None
        yield world.around(0.005 if environment else world.quotas.cold_start_seconds)
        environment = environment or Environment(world, self.name)
        began = world.clock.now  # a cold start is not part of the function's time
        failed: list[Message] = []
        try:
            for message in batch:
                try:
                    yield from self._within(self._react(message.body, environment), began + self._timeout_seconds)
                    self.handled += 1
                except CallFailedError as error:
                    self.failures[str(error)] += 1
                    failed.append(message)
        except FunctionKilledError:
            self.failures["the function's time was over"] += 1
            failed = batch  # what was done is done, but nobody said so to the queue
            world.counts[f"killed {self.name}"] += 1
        else:
            self._idle.append(environment)
        world.seconds[self.name] += world.clock.now - began
        for message in failed:
            self._return(message, received_at=began)
        self._running -= 1
        world.functions_at_once -= 1
        self._pump()

    def _within(self, steps: Steps, deadline: float) -> Process:
        clock = self._world.clock
        for seconds in steps:
            if clock.now + seconds > deadline:
                yield deadline - clock.now
                raise FunctionKilledError
            yield seconds

    def _return(self, message: Message, *, received_at: float) -> None:
        if message.received >= self._attempts:
            self.dead.append(message)
            return
        again = received_at + self._visibility_seconds - self._world.clock.now
        self._world.clock.after(again, lambda: self._appear(message))


def spread(values: list[float]) -> Mapping[str, float]:
    """Median, p95 and maximum; NaN of nothing."""
    if not values:
        return {"p50": math.nan, "p95": math.nan, "max": math.nan}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]

    return {"p50": rank(0.5), "p95": rank(0.95), "max": ordered[-1]}
