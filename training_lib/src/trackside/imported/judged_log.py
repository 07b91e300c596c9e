"""Judging of a log of another tool: by the rules that a log can answer, with the reservations that a log deserves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trackside.choosing.rule_choice import Chosen
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.language_numbers import (
    CLIPPED_SHARE,
    CUT_SHARE,
    ENTROPY,
    HELD_OUT_REWARD,
    MARGIN,
    REWARD,
    SAMPLER_GAP,
    SAMPLER_KL,
    STALENESS,
    UPDATE_KL,
    names_of,
)
from trackside.contracts.run_layout import RULE_REQUEST_KEY, RunLocation
from trackside.contracts.verdict import Outcome
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.imported.memory_runs import SCHEME, MemoryRuns
from trackside.imported.names import tensor_of
from trackside.imported.numbering import EPOCHS, ROUNDS, ROWS, STEPS, NumberedLog
from trackside.imported.written_run import GRADIENT, WrittenRun, write_run
from trackside.runs.judged_now import judge_now
from trackside.runs.judged_part import judged_part
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.storage.open_store import open_store

COMMAND = "trackside run -- python train.py"
ROWS_TO_BE_STUCK = 100  # of a log, where a run has 300 steps: each is a mean of many, or a whole epoch
ROWS_AT_REST = 300  # the same, of 1,000 steps without a better loss
_STEPS_TO_BE_STUCK, _LONGEST_WINDOW = 300, 500  # of the rule, where each step has a row
_STUCK, _BROKEN = "loss-not-decreasing", "exploding-tensor"
_STANDING_STILL = frozenset({_STUCK, "overtraining"})
_OF_FALLING_LOSSES = frozenset({_STUCK, "loss-spike", "overfit", "overtraining"})
_OF_GRADIENTS, _OF_BOTH = frozenset({"vanishing-gradient"}), frozenset({"shrunken-weights"})  # and weights
# Rules about language models, and the numbers that each needs; any of several sets will do.
_OF_LANGUAGE = (
    ("reward-without-progress", ((REWARD,),)),
    ("gamed-reward", ((REWARD, HELD_OUT_REWARD),)),
    ("entropy-collapse", ((REWARD, ENTROPY),)),
    ("off-policy-rollouts", ((SAMPLER_GAP,), (SAMPLER_KL,), (UPDATE_KL,), (CLIPPED_SHARE,), (STALENESS,))),
    ("unended-answers", ((CUT_SHARE,),)),
    ("preference-collapse", ((MARGIN,),)),
)
_SAFE = re.compile(r"[^A-Za-z0-9._=+-]+")
_HIDDEN = (
    "No number in the log is NaN or infinite, but transformers logs the mean of earlier losses in place of such a one "
    "(logging_nan_inf_filter)."
)


@dataclass(frozen=True)
class JudgedLog:
    """A log, judged.

    found      the log
    run        the run that it became
    recorded   the run with its verdicts
    crashed    configurations with a rule that raised
    unanswerable  ids of the rules that a log cannot answer
    """

    found: NumberedLog
    run: WrittenRun
    recorded: RecordedRun
    crashed: tuple[str, ...]
    unanswerable: tuple[str, ...]

    @property
    def kept_at(self) -> str:
        """The address of the run; "" if nothing was kept."""
        uri = self.recorded.location.uri
        return "" if uri.startswith(SCHEME) else uri

    @property
    def reservations(self) -> tuple[str, ...]:
        """Facts about the log that a reader of the verdict must know, a sentence each."""
        log, found = self.found.log, []
        if self.found.unit == ROWS:
            found.append('The log has no steps: its rows are counted, and "step" means a row.')
        elif self.found.unit in {EPOCHS, ROUNDS}:
            found.append(f'The log has {self.found.unit} in place of steps, and "step" means one of them.')
        if self.run.merged > 1:
            found.append(f"The log is long: each judged number is the mean of {self.run.merged:,} logged ones.")
        if self.found.repeated:
            found.append(f"It begins again: {self.found.repeated:,} losses that a later part repeats are left out.")
        if log.hides_nan:
            found.append("A NaN may be hidden: transformers logs an older mean in its place (logging_nan_inf_filter).")
        if self.found.meanings.has_several_aims:
            found.append("Losses of a policy, or of models that compete, need not fall: how they move is not judged.")
        if log.left_out:
            found.append(f"{log.left_out:,} more series are left out.")
        return (*found, *(f"{damage[:1].upper()}{damage[1:]}." for damage in log.damage))


def judge_log(
    found: NumberedLog,
    chosen: Chosen,
    *,
    clock: Callable[[], float],
    into: str = "",
    has_ended: bool = True,
) -> JudgedLog:
    """Judge a log.

    Args:
        found: The log.
        chosen: The rules. Of the default ones those judge that a log can answer; chosen ones all do.
        clock: Returns seconds since the epoch.
        into: A folder or `s3://bucket/prefix` that keeps the run, with its verdicts; "" to keep nothing.
        has_ended: The log grows no more.

    Raises:
        ConfigurationError: The rules are wrong, or `into` holds this run already.
    """
    stores = open_store if into else MemoryRuns()
    name = _SAFE.sub("-", found.log.name).strip(".-") or "log"
    uri = f"{into.rstrip('/')}/{name}" if into else f"{SCHEME}log/{name}"
    if into and next(iter(stores(uri).list()), None) is not None:
        problem = Problem(uri, "holds files already.", f"Name another place, or remove it: trackside rm {uri}")
        raise ConfigurationError([problem], subject="--into")
    run = write_run(found, uri=uri, stores=stores, has_ended=has_ended)
    rules, unanswerable = rules_of_log(found, chosen, interval=found.interval * run.merged)
    request = RuleRequest(rules)
    stores(uri).put(RULE_REQUEST_KEY, request.to_json().encode())
    if into:
        recorded, crashed = _evaluated(uri, request, clock)
    else:
        judged = judge_now(uri, rules, clock=clock, stores=stores)
        recorded, crashed = judged.recorded, judged.found.crashed
    return JudgedLog(found, run, _with_reservations(recorded, found), crashed, unanswerable)


def rules_of_log(
    found: NumberedLog, chosen: Chosen, *, interval: int
) -> tuple[tuple[RuleConfiguration, ...], tuple[str, ...]]:
    """Return the rules for a log, tuned to its rarity, and the ids of those that it cannot answer.

    Args:
        found: The log.
        chosen: The rules of the user.
        interval: The usual number of steps between two rows.
    """
    can_answer = _answered_by(found)
    kept = [rule for rule in chosen.rules if not chosen.is_default or rule.rule_id in can_answer or rule.custom]
    unanswerable = tuple(rule.rule_id for rule in chosen.rules if rule not in kept)
    return tuple(_tuned(rule, found, interval) for rule in kept), unanswerable


def _answered_by(found: NumberedLog) -> frozenset[str]:
    """Return the ids of the rules that need no more than this log has."""
    meanings = found.meanings
    falling = frozenset() if meanings.has_several_aims else _OF_FALLING_LOSSES
    of_rate = frozenset({"learning-rate-collapsed"} if meanings.rate else ())
    tensors = {tensor_of(tag).startswith(GRADIENT) for tag, _ in found.tensors if tensor_of(tag)}
    of_norm = frozenset({"exploding-gradient"} if meanings.norm or True in tensors else ())
    of_tensors = (_OF_GRADIENTS if True in tensors else frozenset()) | (_OF_BOTH if len(tensors) > 1 else frozenset())
    logged = set(names_of(found.series).values())
    of_language = frozenset(rule for rule, needed in _OF_LANGUAGE for one in needed if {n.name for n in one} <= logged)
    return falling | of_rate | of_norm | of_tensors | of_language | {_BROKEN}


def _tuned(rule: RuleConfiguration, found: NumberedLog, interval: int) -> RuleConfiguration:
    """Return the rule with its counts of steps as long as they must be for rows that are so rare."""
    is_of_steps = found.unit == STEPS
    if rule.preset not in {"", "calibrated"} or (is_of_steps and interval == 1):
        return rule
    if rule.rule_id == "overtraining":
        return replace(rule, parameters={"patience_train": str(ROWS_AT_REST), **rule.parameters})
    if rule.rule_id != _STUCK:
        return rule
    rows = ROWS_TO_BE_STUCK * interval
    start = max(_STEPS_TO_BE_STUCK, rows) if is_of_steps else rows
    own = {"start_step": str(start), "num_steps": str(max(_LONGEST_WINDOW, rows))}
    return replace(rule, parameters={**own, **rule.parameters})


def _evaluated(uri: str, request: RuleRequest, clock: Callable[[], float]) -> tuple[RecordedRun, tuple[str, ...]]:
    """Judge a run that is kept, and keep the verdicts beside it."""
    location = RunLocation(uri)
    sink = JsonLinesSink(open_store(location.rule_output))
    summary = evaluate(
        location, request, [sink], poll_seconds=0.1, clock=clock, sleep=time.sleep, should_stop=lambda: False
    )
    return read_run(uri), summary.crashed


def _with_reservations(recorded: RecordedRun, found: NumberedLog) -> RecordedRun:
    """Return the run with the answers that a log does not allow taken back."""
    left = {rule.name: rule for rule in recorded.rules if recorded.has_ended and _was_left(rule, recorded)}
    verdicts = tuple(verdict for verdict in recorded.verdicts if verdict.configuration_name not in left)
    rules = tuple(_doubted(rule, found) if rule.name not in left else _fine(rule) for rule in recorded.rules)
    part = judged_part(rules, state=recorded.state, run=recorded.location.uri, learning=recorded.judged.learning)
    judged = replace(part, command=COMMAND if part.command else "")
    return replace(recorded, verdicts=verdicts, rules=rules, judged=judged)


def _was_left(rule: RuleStatus, recorded: RecordedRun) -> bool:
    """Return True if a loss stood still for a while and fell again: of a training that is over this is no fault."""
    if rule.state is not RuleState.RECOVERED or rule.rule_id not in _STANDING_STILL:
        return False
    own = [verdict for verdict in recorded.verdicts if verdict.configuration_name == rule.name]
    leads = [verdict.lead for verdict in own if verdict.outcome is Outcome.ISSUE_FOUND and verdict.lead is not None]
    return rule.rule_id != _STUCK or all(lead.relation == "<" for lead in leads)


def _fine(rule: RuleStatus) -> RuleStatus:
    return replace(rule, state=RuleState.OK, detail="The loss stood still for a while, and fell again before the end.")


def _doubted(rule: RuleStatus, found: NumberedLog) -> RuleStatus:
    if rule.rule_id == _BROKEN and rule.state is RuleState.OK and found.log.hides_nan:
        return replace(rule, state=RuleState.NOT_ENOUGH_DATA, detail=_HIDDEN)
    return rule


def log_document(judged: JudgedLog) -> Mapping[str, object]:
    """Return what is known of the log itself, as plain JSON values.

    Args:
        judged: The log.
    """
    log, found = judged.found.log, judged.found
    return {
        "name": log.name,
        "source": log.source,
        "format": log.format,
        "columns": found.meanings.shown(),
        "counted": found.unit,
        "interval": found.interval,
        "rows": judged.run.rows,
        "evaluations": judged.run.evaluations,
        "last_step": judged.run.last_step,
        "rows_merged": judged.run.merged,
        "may_hide_nan": log.hides_nan,
        "reservations": list(judged.reservations),
        "rules_left_out": list(judged.unanswerable),
        "to_ask_them": COMMAND,
    }
