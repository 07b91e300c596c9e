"""A worker of the fleet: it leases runs, judges each in a process of its own, and gives back unfinished ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from trackside.cloud.fleet.inbox import Inbox
from trackside.cloud.fleet.judging import Ending, Judge, Judging
from trackside.cloud.fleet.leases import Leases
from trackside.contracts.deployment.lease import LeaseRecord, LeaseState

MOST_CRASHES = 5  # of one run in a row; then a person must look at it
BACK_OFF_SECONDS = 30.0  # after a crash, and twice as long after the next
STABLE_SECONDS = 600.0  # after this time without a crash, earlier crashes are forgotten
TICK_SECONDS = 0.2
REPORT_SECONDS = 60.0
OUTAGE_SECONDS = 5.0  # until a failed request to AWS is repeated
SILENT_SECONDS = 900.0  # longer than any step takes, and than any pause between two looks

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker.

    runs                number of runs judged at once
    look_seconds        between two reads of the table for runs without an owner
    news_seconds        between two reads of news about its own runs; 0: S3 sends no notifications
    grace_seconds       time for evaluators to stop
    back_off_seconds    pause after a crash, doubled with each further one
    queue_wait_seconds  wait for announcements in each turn
    silent_seconds      time without progress after which a judging process hangs, and is ended
    most_memory_bytes   memory of all judging processes, beyond which the largest is ended; 0: no limit
    """

    runs: int = 8
    look_seconds: float = 20.0
    news_seconds: float = 0.0
    grace_seconds: float = 90.0
    back_off_seconds: float = BACK_OFF_SECONDS
    queue_wait_seconds: int = 1
    silent_seconds: float = SILENT_SECONDS
    most_memory_bytes: int = 0


@dataclass(frozen=True)
class Load:
    """The load of a worker.

    judged                runs that it judges
    room                  runs that it could judge at once
    waiting               runs without an owner, as it saw them
    longest_wait_seconds  waiting time of the first of them
    """

    judged: int
    room: int
    waiting: int
    longest_wait_seconds: float


@dataclass
class _Held:
    """A run with a lease of this worker."""

    lease: LeaseRecord
    judging: Judging
    renewed_at: float
    began_at: float
    news_at: float = 0.0


class Worker:
    """A worker, in one thread.

    leases    the table of leases
    inbox     the fleet's queues
    judge     starts the judging process of one lease
    settings  its settings
    clock     returns seconds since the epoch
    """

    def __init__(
        self, leases: Leases, inbox: Inbox, judge: Judge, settings: WorkerSettings, *, clock: Callable[[], float]
    ) -> None:
        self._leases, self._inbox, self._judge = leases, inbox, judge
        self._settings, self._clock = settings, clock
        self._held: dict[str, _Held] = {}
        self._next_look = self._next_news = 0.0
        self._waiting, self._longest_wait = 0, 0.0
        self._unreported: list[tuple[LeaseRecord, str]] = []
        self._again_at: dict[str, float] = {}  # task -> time of the next attempt after an outage

    def work(
        self,
        *,
        should_stop: Callable[[], bool],
        sleep: Callable[[float], object],
        report: Callable[[Load], object] = lambda load: None,
    ) -> None:
        """Work until `should_stop` returns True, then give every lease back.

        During an outage of AWS the worker keeps trying, and its runs are judged for as long as their leases hold.

        Args:
            should_stop: Checked in each turn.
            sleep: Waits for seconds.
            report: Called with the load, once in `REPORT_SECONDS`.
        """
        next_report = self._clock()
        while not should_stop():
            self.turn()
            if self._clock() >= next_report:
                next_report = self._clock() + REPORT_SECONDS
                report(self.load)
            sleep(TICK_SECONDS)
        self._hand_back(sleep)

    def turn(self) -> None:
        """Do each of the worker's tasks once. One that fails in an outage is tried again later, and blocks no other."""
        self._limit_memory()
        self._look_after_all()
        self._through_outages("news", self._look_for_news)
        self._through_outages("announcements", self._receive_work)
        self._through_outages("table", self._look_into_the_table)
        self._through_outages("failures", self._report_failures)

    @property
    def load(self) -> Load:
        """The worker's load."""
        return Load(len(self._held), self._settings.runs, self._waiting, self._longest_wait)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the judging processes."""
        return tuple(held.judging.pid for held in self._held.values())

    def _limit_memory(self) -> None:
        """End the largest judging process while all of them need too much: it alone is the cause, or the nearest."""
        most = self._settings.most_memory_bytes
        sizes = {arn: held.judging.memory_bytes for arn, held in self._held.items()} if most else {}
        while sum(sizes.values()) > most:
            largest = max(sizes, key=lambda arn: sizes[arn])
            needed = f"it took {sizes.pop(largest) >> 20} MB of memory; all runs of a worker may take {most >> 20} MB"
            self._held[largest].judging.kill(needed)

    def _look_after(self, held: _Held) -> None:
        silent = held.judging.silent_seconds
        if silent > self._settings.silent_seconds:
            held.judging.kill(f"it made no progress for {silent:.0f} seconds")
        ending = held.judging.ended()
        if ending is not None:
            self._let_go(held, ending)
        elif self._clock() >= held.renewed_at + self._leases.terms.renew_seconds:
            self._renew(held)

    def _renew(self, held: _Held) -> None:
        now = self._clock()
        renewed = self._leases.renew(held.lease, now=now, ran_well=now - held.began_at >= STABLE_SECONDS)
        if renewed is None:
            _logger.warning("%s is no longer ours: its judging ends here", held.lease.job.name)
            self._drop(held)
            return
        held.lease, held.renewed_at = renewed, now
        held.judging.holds_until(self._end_of(renewed))

    def _let_go(self, held: _Held, ending: Ending) -> None:
        """Record the end of a judging process in the table, then forget the run."""
        lease, now = held.lease, self._clock()
        if held.judging.must_end and (ending.was_judged or ending.exit_code < 0):
            self._leases.give_back(lease, free_at=now)
        elif ending.was_judged:
            self._leases.finish(lease, LeaseState.DONE, reason=ending.message, now=now)
            _logger.info("%s is judged: %s", lease.job.name, ending.message)
        elif ending.will_repeat:
            self._fail(lease, ending.message or f"its evaluator ended with exit code {ending.exit_code}")
        else:
            _logger.warning("The judging of %s broke off (%s): %s", lease.job.name, ending.exit_code, ending.message)
            pause = self._settings.back_off_seconds * 2 ** min(lease.crashes, MOST_CRASHES)
            self._leases.give_back(lease, free_at=now + pause, crashed=True)
        self._drop(held)

    def _fail(self, lease: LeaseRecord, reason: str) -> None:
        if self._leases.finish(lease, LeaseState.FAILED, reason=reason, now=self._clock()):
            self._unreported.append((lease, reason))

    def _report_failures(self) -> None:
        while self._unreported:
            self._inbox.report_failed(*self._unreported[0])
            del self._unreported[0]

    def _drop(self, held: _Held) -> None:
        held.judging.kill()
        held.judging.close()
        self._held.pop(held.lease.job.arn, None)

    def _look_for_news(self) -> None:
        if not self._settings.news_seconds or not self._held or self._clock() < self._next_news:
            return
        self._next_news = self._clock() + self._settings.news_seconds
        news = self._leases.news([held.lease for held in self._held.values()])
        for held in self._held.values():
            at = news.get(held.lease.run_uri, 0.0)
            if at > held.news_at:
                held.news_at = at
                held.judging.look_now()

    def _receive_work(self) -> None:
        room = self._settings.runs - len(self._held)
        if room <= 0:
            return
        # Waiting here is the pause between two looks; while runs are judged it must stay short.
        for announced in self._inbox.announced(most=room, wait_seconds=self._settings.queue_wait_seconds):
            seen = self._leases.look_up(announced.job_arn)
            if seen is not None and seen.is_open:
                self._take(seen)
            self._inbox.forget(announced)

    def _look_into_the_table(self) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + self._settings.look_seconds
        free = self._leases.free(now=now, most=max(100, self._settings.runs))
        for seen in free:
            if len(self._held) < self._settings.runs:
                self._take(seen)
        left = [seen for seen in free if seen.job.arn not in self._held]
        self._waiting = len(left)
        self._longest_wait = max((now - seen.free_at for seen in left), default=0.0)

    def _take(self, seen: LeaseRecord) -> None:
        now = self._clock()
        lease = self._leases.take(seen, now=now)
        if lease is None:
            return
        if lease.crashes > MOST_CRASHES:
            self._fail(
                lease, f"its judging broke off {lease.crashes} times in a row. The log of the workers shows how."
            )
            return
        _logger.info("%s is judged here (lease %d)", lease.job.name, lease.token)
        try:
            judging = self._judge(lease)
        except OSError as error:  # no memory, no process: another worker may have both
            _logger.warning("%s cannot be judged here: %s", lease.job.name, error)
            self._leases.give_back(lease, free_at=now + self._settings.back_off_seconds, crashed=True)
            return
        judging.holds_until(self._end_of(lease))
        earlier = self._held.get(lease.job.arn)
        if earlier is not None:  # of a deleted job of that name
            self._drop(earlier)
        self._held[lease.job.arn] = _Held(lease, judging, renewed_at=now, began_at=now)

    def _end_of(self, lease: LeaseRecord) -> float:
        return lease.free_at - self._leases.terms.margin_seconds

    def _hand_back(self, sleep: Callable[[float], object]) -> None:
        """Stop all judging: processes first judge complete steps, and those that take too long are killed."""
        give_up_at = self._clock() + self._settings.grace_seconds
        for held in self._held.values():
            held.judging.end_soon()
        while self._held and self._clock() < give_up_at:
            self._look_after_all()
            sleep(TICK_SECONDS)
        for held in list(self._held.values()):
            held.judging.kill()
        self._again_at.clear()
        self._look_after_all()
        self._through_outages("failures", self._report_failures)

    def _look_after_all(self) -> None:
        for arn, held in list(self._held.items()):
            self._through_outages(arn, partial(self._look_after, held))

    def _through_outages(self, what: str, act: Callable[[], None]) -> None:
        if self._clock() < self._again_at.get(what, 0.0):
            return
        try:
            act()
            self._again_at.pop(what, None)
        except (ClientError, BotoCoreError) as error:
            self._again_at[what] = self._clock() + OUTAGE_SECONDS
            _logger.warning("AWS does not answer as it should; trying again: %s", error)
