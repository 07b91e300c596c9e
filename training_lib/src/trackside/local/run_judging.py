"""A run that this process trains, judged by an evaluator beside it, which a thread of ours starts and follows."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from trackside.contracts.errors import KeyNotFoundError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import END_MARKER_KEY, RULE_REQUEST_KEY, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Verdict
from trackside.evaluation.sinks.json_lines import MOST_VERDICTS_BYTES
from trackside.local.evaluator_process import EVALUATOR, EvaluatorProcess, EvaluatorState
from trackside.runs.capture_check import rule_progress
from trackside.runs.judgement import Judgement
from trackside.runs.rule_state import rule_statuses
from trackside.runs.run_folder import RunRecord, held, write_record
from trackside.runs.verdict_feed import read_verdicts
from trackside.storage.open_store import open_store

LOOK_SECONDS = 0.3
REMOTE_LOOK_SECONDS = 5.0


class RunJudging:
    """The judging of one run. Nothing starts before the run exists, and no method raises into the training.

    Attributes:
        problem: A sentence about why the run is not judged; "" if it is.

    Args:
        run: The location of the run.
        request: The rules.
        environment: Variables for the evaluator.
        news: Called by the thread after each change of the verdicts or of the number of judged steps, and at the end.
        command: The evaluator's command line.
        program: The words that stand for the training in lists of runs; () for a run whose record another writes.
    """

    def __init__(
        self,
        run: RunLocation,
        request: RuleRequest,
        *,
        environment: Mapping[str, str],
        news: Callable[[], object],
        command: tuple[str, ...] = EVALUATOR,
        program: tuple[str, ...] = (),
    ) -> None:
        self._run, self._request, self._news = run, request, news
        self._environment, self._command = environment, command
        self._record = RunRecord(program, time.time()) if program else None
        self._is_remote = "://" in run.uri
        self._store, self._tensors = open_store(run.uri), open_store(run.tensors)
        self._rule_output = open_store(run.rule_output)
        self._training_ended, self._is_over = threading.Event(), threading.Event()
        self._has_end_marker = False
        self._lines, self._judged = b"", -1
        self._verdicts: tuple[Verdict, ...] = ()
        self.problem = ""
        self._thread = threading.Thread(target=self._judge, name="trackside-judging", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once no further verdict will come."""
        return self._is_over.is_set()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts that the thread has read so far, in the order found. Reads nothing."""
        return self._verdicts

    def judgement(self) -> Judgement:
        """Return what was found so far. Errors: those of the store."""
        progress = rule_progress(self._rule_output)
        verdicts = self._verdicts_now()
        rules = rule_statuses(self._request.rules, verdicts, progress=progress, is_running=not self._has_end_marker)
        return Judgement(self._run.uri, self._has_end_marker, rules, verdicts, self.problem)

    def training_ended(self) -> None:
        """Note that the run is closed: the evaluator judges the rest, and ends."""
        self._training_ended.set()

    def wait(self, seconds: float) -> bool:
        """Wait until no further verdict will come. Return False if that takes longer."""
        return self._is_over.wait(seconds)

    def _judge(self) -> None:
        try:
            if self._wait_for_run():
                self._follow()
        except Exception as error:  # noqa: BLE001 - the training goes on, whatever breaks here
            self.problem = f"The run is not judged any more: {type(error).__name__}: {error}"
        finally:
            self._is_over.set()
            self._report()

    def _wait_for_run(self) -> bool:
        """Wait for the run's first object. Return False if the training ended without one."""
        while True:
            is_last = self._training_ended.is_set()
            if next(iter(self._store.list("")), None) is not None:
                return True
            if is_last:
                return False
            self._training_ended.wait(REMOTE_LOOK_SECONDS if self._is_remote else LOOK_SECONDS)

    def _follow(self) -> None:
        with contextlib.ExitStack() as until_the_end:
            if self._is_remote:
                folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="trackside-")))
            else:
                folder = Path(self._run.uri)
                until_the_end.enter_context(held(folder))
                self._write_record()
            self._store.put(RULE_REQUEST_KEY, self._request.to_json().encode())
            evaluator = EvaluatorProcess(
                folder,
                run=self._run.uri,
                environment=self._environment,
                note=lambda _: None,
                monotonic=time.monotonic,
                command=self._command,
            )
            while evaluator.tend() is EvaluatorState.RUNNING:
                self._look()
                if self._training_ended.is_set():  # then nothing wakes us
                    self._note_end()
                    time.sleep(LOOK_SECONDS)
                else:
                    self._training_ended.wait(REMOTE_LOOK_SECONDS if self._is_remote else LOOK_SECONDS)
            if evaluator.problem:
                self.problem = f"The rules are no longer judged: {evaluator.problem}"
            self._note_end(evaluator.problem)
            self._has_end_marker = self._tensors.exists(END_MARKER_KEY)
            self._look()

    def _note_end(self, problem: str = "") -> None:
        """Write into the record that the training has ended, and why rules judge it no further."""
        if self._record is not None and (self._record.ended_at is None or problem):
            ended_at = self._record.ended_at or time.time()
            self._record = replace(self._record, ended_at=ended_at, status=0, judging_problem=problem)
            self._write_record()

    def _write_record(self) -> None:
        if self._record is not None and not self._is_remote:
            write_record(Path(self._run.uri), self._record)

    def _look(self) -> None:
        count, judged = len(self._verdicts), self._judged
        self._verdicts_now()
        progress = rule_progress(self._rule_output)
        self._judged = max((each.judged_through for each in progress.values()), default=-1)
        if (count, judged) != (len(self._verdicts), self._judged):
            self._report()

    def _verdicts_now(self) -> tuple[Verdict, ...]:
        """Return each verdict once, in the order found."""
        try:
            lines = self._rule_output.get(VERDICTS_KEY, length=MOST_VERDICTS_BYTES)
        except KeyNotFoundError:
            return ()
        lines = lines[: lines.rfind(b"\n") + 1]
        if lines != self._lines:
            first: dict[str, Verdict] = {}
            for verdict in read_verdicts(lines):
                first.setdefault(verdict.verdict_id, verdict)
            self._lines, self._verdicts = lines, tuple(first.values())
        return self._verdicts

    def _report(self) -> None:
        with contextlib.suppress(Exception):  # a display that fails must not end the judging
            self._news()
