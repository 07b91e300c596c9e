"""Plays so many events through the handlers under faults, and compares what came of each job with what must."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchmarks.faults.cases import LIFE_SECONDS, LISTED_ROLE, POISON, Case, count_of, draw, name_of, verdict_event
from benchmarks.faults.simulated_account import Job, SimulatedAccount
from benchmarks.faults.wiring import Wiring
from lambdas.stop_training.logic import REQUEST_SECONDS
from trackside.contracts.deployment.stop_record import VetoRecord
from trackside_localaccount.faults import Faults

STARTED_AT = 1_790_000_000.0
REDRIVE_SECONDS = 3600.0  # how often somebody looks after the dead letters
LONGEST_SCRIPT_SECONDS = 5 * 3600.0
MOST_HOURS = 60  # then what still waits is lost
# The deployment's settings as cdk.json has them, but for what would hold stops back on purpose.
# The pace waits for real; the clock here is none.
SETTINGS = {
    "TRACKSIDE_STOPS_PER_HOUR": "0",
    "TRACKSIDE_PAUSE_MILLISECONDS": "0",
    "TRACKSIDE_RESUME_ROLES": LISTED_ROLE,
}


@dataclass(frozen=True)
class Result:
    """`wrong` and `lost`: one sentence each. `repeated`: a person's stop that we recorded as ours, in the same seconds;
    mails and counts beyond one, each after an answer of SNS that
    was lost, or a death right after it or after the line that counts: nobody can know then whether it was done.
    `too_late`: requests to stop of which the first copy came when their job was deleted and another had its name."""

    events: int
    jobs: int
    faults: Mapping[str, int]
    deaths: int
    redriven: int
    stops: int
    mails: int
    counts: int
    wrong: tuple[str, ...]
    lost: tuple[str, ...]
    repeated: int
    too_late: int
    seconds: float
    poison: int
    resumed: int


@dataclass
class _Played:
    cases: dict[str, Case] = field(default_factory=dict)
    jobs: dict[str, list[Job]] = field(default_factory=dict)  # all that had the name, oldest first
    successors: list[Job] = field(default_factory=list)  # all that functions created
    events: int = 0


def play(
    wiring: Wiring,
    faults: Faults,
    *,
    events: int,
    spread_hours: float = 6.0,
    outage: tuple[str, ...] = (),
    cases: Sequence[Case] = (),
) -> Result:
    """Jobs start within `spread_hours`. `outage`: services that are down for one hour, a third of that time in.

    `cases`: in turn; none: drawn from all kinds.
    """
    begun, spread = time.monotonic(), spread_hours * 3600
    with SimulatedAccount(wiring, faults=faults, started_at=STARTED_AT, settings=SETTINGS) as account:
        played = _schedule(account, itertools.cycle(cases) if cases else draw(faults.seed), events, spread)
        account.when_created = partial(_go_on, account, played)
        if outage:
            _switch_off(account, faults, outage, first=STARTED_AT + spread / 3)
        redriven = 0
        while account.now < STARTED_AT + spread + LONGEST_SCRIPT_SECONDS:
            account.run_until(account.now + REDRIVE_SECONDS)
            redriven += account.redrive()
        account.switch.set(Faults())  # the weather clears up; what lies there is redriven until nothing moves
        for _ in range(MOST_HOURS):
            account.run_until(account.now + REDRIVE_SECONDS)
            if not account.waiting() and len(account.dead_letters()) <= len(POISON):
                break
            redriven += account.redrive()
        account.run_until(account.now + REDRIVE_SECONDS)
        wrong, lost, twice = _compare(account, played)
        return Result(
            events=played.events,
            jobs=sum(map(len, played.jobs.values())),
            faults=account.switch.counts,
            deaths=account.deaths,
            redriven=redriven,
            stops=sum(job.stops for lives in played.jobs.values() for job in lives),
            mails=sum(map(len, account.done.mails.values())),
            counts=account.done.counts.total(),
            wrong=tuple(wrong),
            lost=tuple(lost),
            repeated=twice,
            too_late=len(account.done.late),
            seconds=time.monotonic() - begun,
            poison=len(account.dead_letters()),
            resumed=len(played.successors),
        )


def _switch_off(account: SimulatedAccount, faults: Faults, services: tuple[str, ...], *, first: float) -> None:
    account.at(first, lambda: account.switch.set(replace(faults, outage=services)))
    account.at(first + 3600, lambda: account.switch.set(replace(faults, seed=faults.seed + 1)))


def _schedule(account: SimulatedAccount, cases: Iterator[Case], events: int, spread: float) -> _Played:
    played = _Played()
    while played.events < events:
        _add(account, played, next(cases), spread)
    for number, body in enumerate(POISON):
        queue = ("stop_training", "notify_owner", "record_verdict")[number % 3]
        account.at(STARTED_AT + 600 * number, partial(account.send, queue, body))
    return played


def _add(account: SimulatedAccount, played: _Played, case: Case, spread: float) -> None:
    number = len(played.cases)
    name = name_of(number, case)
    start = STARTED_AT + (number * 137.0) % spread
    played.cases[name] = case
    played.jobs[name] = []
    for life in range(case.lives):
        created_at = start + life * LIFE_SECONDS
        tags = {"trackside:run": f"s3://runs-bucket/{name}/{life}"} if case.is_tagged else {}
        job = Job(name, tags, created_at, created_at + case.runs_seconds, role=case.role)
        played.jobs[name].append(job)
        account.at(created_at, partial(account.create_job, job))
        _schedule_job(account, played, job, case)


def _schedule_job(account: SimulatedAccount, played: _Played, job: Job, case: Case) -> None:
    start = job.created_at
    for rule in case.official:
        status = {"RuleConfigurationName": rule, "RuleEvaluationStatus": "IssuesFound", "StatusDetails": "met"}
        job.statuses.append({**status, "LastModifiedTime": round((start + 100) * 1000)})
    for after in (*case.states, case.runs_seconds):
        if after >= LONG_AFTER:
            continue
        account.at(start + after, partial(account.send_state, job))
        played.events += 1
    if case.is_vetoed:
        veto = VetoRecord(job.arn, start + LATER_THAN_ALL, by="ada", reason="as planned")
        account.at(start + 1, partial(account.put_item, veto.to_item(expires_at=None)))
    if case.person_stops_after is not None:
        account.at(start + case.person_stops_after, partial(account.stop_by_person, job))
    job.when_judged = partial(_judge, account, job, case)
    played.events += len(case.reports)


def _judge(account: SimulatedAccount, job: Job, case: Case) -> None:
    """The job has an evaluator: it says what there is to say, or, if it came late, what it would have said by now."""
    for index, report in enumerate(case.reports):
        at = max(job.created_at + report.after, account.now + FIRST_WORD_SECONDS + index)
        run = job.tags["trackside:run"]
        count, created_at = count_of(case.reports, index), job.created_at
        more = {"name": job.name, "arn": job.arn, "run": run}
        event = verdict_event(
            f"{job.name}/{job.created_at:.0f}/{index}", report, **more, at=at, created_at=created_at, count=count
        )
        account.at(at, partial(account.put_event, "trackside", event))


def _go_on(account: SimulatedAccount, played: _Played, job: Job) -> None:
    """A job goes on in another's place; once it is judged it has the same issue, where the case says so."""
    before = job.place_of
    case = played.cases.get(before.name) if before else None
    played.successors.append(job)
    if case and case.comes_back:
        job.ends_at = job.created_at + case.runs_seconds  # until somebody stops it
        job.when_judged = partial(_judge, account, job, case)


FIRST_WORD_SECONDS = 60.0
LONG_AFTER = 50 * 3600.0  # a job that somebody stops says its end when it was stopped
LATER_THAN_ALL = 40 * 3600.0  # the veto holds for all that is found before it


def _compare(account: SimulatedAccount, played: _Played) -> tuple[list[str], list[str], int]:
    wrong: list[str] = []
    lost: list[str] = []
    twice = 0
    for name, case in played.cases.items():
        lives = played.jobs[name]
        after = [job for job in played.successors if job.place_of in lives]
        found = itertools.chain(_differences(account, lives, case), _what_follows(account, lives, case, after))
        for is_lost, sentence, excused in found:
            if excused:
                twice += 1
            else:
                (lost if is_lost else wrong).append(f"{name} ({case.kind}): {sentence}")
    return wrong, lost, twice


def _differences(account: SimulatedAccount, lives: Sequence[Job], case: Case) -> Iterator[tuple[bool, str, bool]]:
    """(lost, not wrong; what; told again because nobody could know)."""
    name, arn, done = lives[0].name, lives[0].arn, account.done
    excuses = done.repeatable[name]
    stops = [job.stops for job in lives]
    wanted = [int(bool(case.stopped) and (name, int(job.created_at)) not in done.late) for job in lives]
    if case.stopped is not None and stops != wanted:
        yield sum(stops) < sum(wanted), f"stopped {stops} times", False
    if case.person_stops_after is not None and any(job.stopped_at is None for job in lives):
        yield True, "not stopped by anybody", False
    mail_counts = Counter(mail["finding"] for mail in done.mails[name])
    for finding in {*mail_counts, *case.mails}:
        more = mail_counts[finding] - len(lives) * (finding in case.mails)
        if more < 0 and case.official and not account.reached[name, "notify_owner"]:
            continue  # no event said so: the reconciler records it, and acts on nothing
        if more:
            excused = 0 < more <= excuses and finding in case.mails
            yield more < 0, f"told {mail_counts[finding]} times of {finding}", excused
    more = done.counts[name] - case.counts * len(lives)
    if more and not (more < 0 and case.official and not account.reached[name, "notify_owner"]):
        yield more < 0, f"counted {done.counts[name]} issues", 0 < more <= excuses
    for life, job in enumerate(lives):
        evaluators = sum(judged is job for judged, _ in done.evaluators.values())
        if evaluators != int(case.judged):
            yield not evaluators, f"{evaluators} evaluators", False
        markers = done.end_markers[f"{name}/{life}/debug-output/training_job_end.ts"]
        if markers != int(case.ended):
            yield not markers, f"{markers} end markers", False
    latest = {item["sk"]["S"].removeprefix("rule#"): item["status"]["S"] for item in account.items(arn, "rule#")}
    if latest != dict(case.latest):
        yield len(latest) < len(case.latest), f"the table says {latest}", False
    decisions = account.items(arn, "decision#")
    outcomes = sorted(item["outcome"]["S"] for item in decisions)
    final = [outcome for outcome in outcomes if outcome not in NO_END_OF_A_STOP]
    expected = case.stop_requests * len(lives)
    if len(final) != expected or final.count("Stopped") != sum(stops):
        unknowable = len(final) == expected and any(_at_once(job, decisions) for job in lives)
        yield len(final) < expected, f"decisions {outcomes} of {sum(stops)} stops", unknowable


NO_END_OF_A_STOP = ("Stopping", "Announced", "Unconfirmed", "OverBudget", "Resumed", "NotResumed")


def _what_follows(
    account: SimulatedAccount, lives: Sequence[Job], case: Case, after: Sequence[Job]
) -> Iterator[tuple[bool, str, bool]]:
    """As `_differences`, of the jobs that go on in the place of stopped ones."""
    name, done = lives[0].name, account.done
    wanted = sum(job.stops for job in lives) if case.resumed else 0
    if len(after) != wanted:
        yield len(after) < wanted, f"{len(after)} jobs go on in its place", False
    more = done.notes[name] - case.notes
    if more:
        yield more < 0, f"told {done.notes[name]} times of what followed its stop", 0 < more <= done.repeatable[name]
    for job in after:
        if job.stops != int(case.comes_back):
            yield job.stops < int(case.comes_back), f"{job.name}, which goes on, was stopped {job.stops} times", False
        record = next(iter(account.items(job.arn, "job")), {})
        if record.get("continues", {}).get("S") != job.tags["trackside:resumed-from"]:
            yield True, f"the table does not have that {job.name} continues it", False
        if case.comes_back and not done.notes[job.name]:
            yield True, f"nobody was told that nothing follows {job.name}", False
    outcomes = [item["outcome"]["S"] for item in account.items(lives[0].arn, "decision#")]
    if outcomes.count("Resumed") != len(after):
        yield outcomes.count("Resumed") < len(after), f"decisions {outcomes} of {len(after)} jobs that go on", False


def _at_once(job: Job, decisions: Sequence[Mapping[str, Any]]) -> bool:
    """True if a person stopped the job in the seconds in which a function that had recorded its request may have lived:
    nobody can know then whose stop it was."""
    moments = [float(one["at"]["N"]) for one in decisions if one["outcome"]["S"] == "Stopping"]
    return not job.stops and any(0 <= (job.stop_asked_at or 0) - at <= REQUEST_SECONDS for at in moments)
