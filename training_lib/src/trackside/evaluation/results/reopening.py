"""The reopening of an evaluation, for a run that goes on after its end: its final verdicts are taken back."""

from __future__ import annotations

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError
from trackside.contracts.run_layout import VERDICTS_KEY
from trackside.contracts.verdict import Outcome, State, Verdict
from trackside.evaluation.results.progress import Progress, ProgressFile
from trackside.evaluation.sinks.json_lines import MOST_VERDICTS_BYTES
from trackside.storage.store import Store


def reopen_verdicts(rule_output: Store) -> None:
    """Take back the verdicts that rules gave at the end of the run; issues and their recoveries stay.

    Every rule that did not crash judges on, from the step after the last one that it judged. A kill in between is
    harmless: the next call takes back the rest.

    Args:
        rule_output: Rooted at the run's `rule-output`.

    Raises:
        StorageError: The store cannot be read or written.
    """
    file = ProgressFile(rule_output)
    progress = file.load()
    crashed = {name for name, rule in progress.rules.items() if rule.error}
    _keep_lines(rule_output, crashed)
    if not progress.rules:
        return
    for rule in progress.rules.values():
        rule.has_concluded = bool(rule.error)
    kept = [delivery for delivery in progress.deliveries if _stays(delivery.verdict, crashed)]
    file.save(Progress(progress.rules, kept))


def _keep_lines(rule_output: Store, crashed: set[str]) -> None:
    try:
        written = rule_output.get(VERDICTS_KEY, length=MOST_VERDICTS_BYTES)
    except KeyNotFoundError:
        return
    kept = [line for line in written.splitlines(keepends=True) if _is_kept(line, crashed)]
    rule_output.put(VERDICTS_KEY, b"".join(kept))


def _is_kept(line: bytes, crashed: set[str]) -> bool:
    try:
        return _stays(Verdict.from_json(line.decode("utf-8", errors="replace")), crashed)
    except ConfigurationError:  # of a newer Trackside, or damaged: no reader takes it for the end of this run
        return True


def _stays(verdict: Verdict, crashed: set[str]) -> bool:
    is_of_a_step = verdict.outcome is Outcome.ISSUE_FOUND or verdict.state is State.RECOVERED
    return is_of_a_step or verdict.configuration_name in crashed
