"""The recorded state of a run, on disk or in S3: its rules, verdicts and saved steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, RunNotFoundError
from trackside.contracts.issue_group import IssueGroup, issue_groups
from trackside.contracts.rule_request import MOST_BYTES, RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.rescue import RescueRecord
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    VERDICTS_KEY,
    RunLocation,
)
from trackside.contracts.verdict import Severity, Verdict
from trackside.evaluation.results.run_learning import read_learning
from trackside.evaluation.sinks.json_lines import MOST_VERDICTS_BYTES
from trackside.runs.capture_check import rule_progress, saved_steps
from trackside.runs.command_end import signal_of
from trackside.runs.judged_part import JudgedPart, judged_part
from trackside.runs.rescues import read_rescue
from trackside.runs.rule_state import RuleStatus, gravest_severity, rule_statuses
from trackside.runs.run_folder import RunRecord, RunState, read_record, run_state
from trackside.runs.verdict_feed import read_verdicts
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordedRun:
    """The recorded state of one run.

    has_ended  True once the end marker exists: nothing more is saved
    state      the state of the run; of one in S3 whether it has ended
    record     the record of `trackside run`; None for a run that it did not make, and in S3
    steps      steps with saved tensors
    verdicts   each once, in the order found
    rules      the state of each rule
    judged     the part of the run that they have judged
    rescue     what the training did when its numbers broke; None if it was never to go back, or had no reason to
    """

    location: RunLocation
    has_ended: bool
    state: RunState
    record: RunRecord | None
    steps: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    rules: tuple[RuleStatus, ...]
    judged: JudgedPart
    rescue: RescueRecord | None = None

    @property
    def state_in_words(self) -> str:
        """The state, with the signal that the training died of: `failed (SIGSEGV)`."""
        return state_in_words(self.state, self.record.status if self.record else None)

    @property
    def groups(self) -> tuple[IssueGroup, ...]:
        """The problems of the run, standing ones first, then the gravest."""
        return issue_groups(self.verdicts)

    @property
    def worst_severity(self) -> Severity | None:
        """The severity by which the run fails, as `gravest_severity` has it; None for none."""
        return gravest_severity(self.verdicts, self.judged.learning)


def read_run(uri: str, *, stores: Callable[[str], Store] = open_store) -> RecordedRun:
    """Return the recorded state of a run. `stores` opens the store at a location.

    Errors: `RunNotFoundError` if no run is at the location, and those of the stores.
    """
    store = stores(uri)
    tensors = stores(RunLocation(uri).tensors)
    request = _read(store, RULE_REQUEST_KEY, MOST_BYTES + 1)
    lines = _read(store, f"{RULE_OUTPUT}/{VERDICTS_KEY}", MOST_VERDICTS_BYTES)
    steps = saved_steps(tensors)
    has_ended = tensors.exists(END_MARKER_KEY)
    if request is None and lines is None and not steps and not has_ended:
        raise RunNotFoundError(f"There is no run at {uri}. It holds neither {TENSORS} nor {RULE_REQUEST_KEY}.")
    verdicts = _each_once((*read_verdicts(lines or b""), *_judged_separately(store)))
    state, record = state_of(uri, has_ended=has_ended)
    rule_output, is_running = stores(RunLocation(uri).rule_output), state in {RunState.RUNNING, RunState.OPEN}
    rules = rule_statuses(
        requested_rules(request), verdicts, progress=rule_progress(rule_output), is_running=is_running
    )
    learning = Learning() if is_running else read_learning(rule_output)  # that of an earlier part, while it goes on
    problem = record.judging_problem if record else ""
    return RecordedRun(
        location=RunLocation(uri),
        has_ended=has_ended,
        state=state,
        record=record,
        steps=steps,
        verdicts=verdicts,
        rules=rules,
        judged=judged_part(rules, state=state, run=uri, problem=problem, learning=learning),
        rescue=read_rescue(store),
    )


def state_of(uri: str, *, has_ended: bool) -> tuple[RunState, RunRecord | None]:
    """Return the state of a run, and its record; None in S3, and for a run that `trackside run` did not make.

    Without a record nobody knows whether the training lives: then the run is open until its end marker is read.
    """
    if "://" in uri:
        return RunState.ENDED if has_ended else RunState.OPEN, None
    state, record = run_state(Path(uri)), read_record(Path(uri))
    return RunState.OPEN if state is RunState.LOST and record is None else state, record


def state_in_words(state: RunState, status: int | None) -> str:
    """Return the state of a run, with the signal that its training died of: `failed (SIGSEGV)`.

    Args:
        state: The state.
        status: Exit code of its command, or -n for signal n; None if it is not known.
    """
    died_of = signal_of(status) if state is RunState.FAILED else ""
    return f"{state.value} ({died_of})" if died_of else state.value


def _judged_separately(store: Store) -> Iterator[Verdict]:
    """Yield the verdicts of containers for one rule. Each has a folder beside the evaluator's verdicts."""
    for key in store.list(f"{RULE_OUTPUT}/"):
        if key.endswith(f"/{VERDICTS_KEY}") and key.count("/") == 2:
            yield from read_verdicts(_read(store, key, MOST_VERDICTS_BYTES) or b"")


def _read(store: Store, key: str, most_bytes: int) -> bytes | None:
    try:
        return store.get(key, length=most_bytes)
    except KeyNotFoundError:
        return None


def requested_rules(request: bytes | None) -> tuple[RuleConfiguration, ...]:
    """Return the rules of a run's request; none for a run without a readable one."""
    if request is None:
        return ()
    try:
        return RuleRequest.from_json(request).rules
    except ConfigurationError as error:
        _logger.warning("%s is left out: %s", RULE_REQUEST_KEY, error)
        return ()


def _each_once(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Return each verdict once. An evaluator killed between sending and storing sends it again."""
    first: dict[str, Verdict] = {}
    for verdict in verdicts:
        first.setdefault(verdict.verdict_id, verdict)
    return tuple(first.values())
