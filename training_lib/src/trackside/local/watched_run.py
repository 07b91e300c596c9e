"""A training of a notebook or a script, captured and judged while it runs, without a command around it."""

from __future__ import annotations

import atexit
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from trackside.capture.request_reading import request_of
from trackside.choosing.program_rules import Rules, rules_of
from trackside.choosing.project_settings import read_settings
from trackside.choosing.rule_plan import plan_of
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import TracksideError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS, RunLocation
from trackside.environment import CaptureEnvironment, inherited
from trackside.frameworks.pytorch.script.hook import Hook
from trackside.local.judged_capture import JudgedCapture
from trackside.local.notebook_display import Notebook
from trackside.local.stderr_message import write_message
from trackside.runs.judgement import Findings, Judgement, judgement_of
from trackside.runs.problem_text import problem_as_text, problems_as_html
from trackside.runs.recorded_run import read_run
from trackside.runs.run_folder import RUNS, run_name, typed_name
from trackside.runs.source_text import SourceText

JUDGING_SECONDS = 60.0  # how long the end of a block or a script waits for the last verdicts
KERNEL_SECONDS = 1.0  # the same for the end of a kernel, which Jupyter kills after some seconds
SHOW_SECONDS = 0.5  # between two changes of a display
MOST_NUMBERED = 1000

_SUBJECT = "trackside.watch"


class WatchedRun(Hook):
    """A run that is captured and judged: the handle that `trackside.watch` returns.

    In a notebook it shows itself, and its display below the cell updates while later cells train. The run ends with the
    `with` block, with `close`, with the next call of `trackside.watch`, or with the process; in a notebook also after
    the cell in which its last name is deleted or used for another object.

    Args:
        session: The capture and the judging that it stands for.
    """

    def __init__(self, session: _Session) -> None:
        self._capture = session.training.hook._capture
        self._session = session

    @property
    def run(self) -> str:
        """The location of the run, a folder or an `s3://` address."""
        return self._session.training.location.uri

    @property
    def judgement(self) -> Judgement:
        """The judgement so far: verdicts, and the state of each rule."""
        return self._session.judgement()

    @property
    def findings(self) -> Findings:
        """The issues so far, the gravest problem first."""
        return self.judgement.findings

    @property
    def problems(self) -> tuple[IssueGroup, ...]:
        """The problems so far: issues that belong together as one."""
        return self.judgement.problems

    def close(self) -> None:
        """End the run, and wait up to a minute for the last verdicts. A second call does nothing."""
        self._session.close(wait_seconds=JUDGING_SECONDS)

    def __enter__(self) -> WatchedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WatchedRun {self.run!r}: {self._session.state()}>"

    def _repr_html_(self) -> str:
        return self._session.picture()._repr_html_()


def watch(
    run: Any = "",
    *,
    save: CaptureRequest | Mapping[str, int] | None = None,
    rules: Rules | None = None,
    model: Any = None,
    loss: Any = None,
    optimizer: Any = None,
) -> WatchedRun:
    """Capture the training of this process from now on, and judge it while it runs.

    For notebooks and scripts: torch may be imported and the model built already, and nothing else has to be changed.
    Rules judge in a process beside this one. Findings show below the cell, or on stderr, and in `findings`.

    Without a name each call begins a run of its own below `.trackside/runs`, and ends the one before: a cell may be run
    again. A second call with the name of the run that is open continues that run; a name that has ended gets a number.
    Under `trackside run`, and wherever TRACKSIDE_RUN is set, that run is used, and judged by whoever set it.

    Args:
        run: A new folder or `s3://bucket/prefix`; by default a new folder below `.trackside/runs`. A model, as for
            `model`, may stand here too.
        save: A whole request, or an interval of steps for each collection; by default losses, and whatever the rules
            need.
        rules: Rules by id, as `"overfit"`, `"overfit:patience_evaluations=5"` or `"mine.py:Large"`; or a mapping from
            the rule to its parameters. None for the project's rules, by default all usual ones, `()` for none.
        model: A model. If it is given, only it is captured.
        loss: A loss module to save under the name of its class; others are found by themselves.
        optimizer: Needed only for one that is neither built nor stepped by `torch.optim`.

    Returns:
        The handle of the run, for a `with` statement or a name.

    Raises:
        ConfigurationError: With every problem at once.
        TypeError: The model is no `torch.nn.Module`.

    Example:
        with trackside.watch() as run:
            train(model)
        print(run.findings)
    """
    if not isinstance(run, str):
        run, model = "", run if model is None else model
    if model is not None and not hasattr(model, "named_modules"):
        raise TypeError(f"A model is a torch.nn.Module, not a {type(model).__name__}.")
    environment = CaptureEnvironment.read()
    before = _Current.session
    if before is not None and not before.training.is_closed and run and before.name == run:
        handle = before.handle() or WatchedRun(before)
        before.handle = weakref.ref(handle)
    else:
        # A wrong argument raises here, before anything ends or begins.
        session = _Session(run, save=save, rules=rules, environment=environment)
        if before is not None:
            before.close(wait_seconds=0.0)
        handle = WatchedRun(session)
        session.begin(handle)
        _Current.session = session
    if model is not None:
        handle.watch(model, loss=loss, optimizer=optimizer)
    return handle


class _Current:
    session: _Session | None = None  # of the newest call


@dataclass(frozen=True)
class _Picture:
    """A run as a notebook shows it."""

    judgement: Judgement
    state: str
    sources: SourceText

    def __str__(self) -> str:
        lines = [line for group in self.judgement.problems for line in ("", *problem_as_text(group))]
        return "\n".join([f"trackside {RunLocation(self.judgement.run).name}: {self.state}", *lines])

    def _repr_html_(self) -> str:
        name = RunLocation(self.judgement.run).name
        return problems_as_html(self.judgement.problems, heading=name, state=self.state, sources=self.sources)


class _Session:
    """One judged capture, and the places where its findings are shown."""

    def __init__(self, name: str, *, save: Any, rules: Rules | None, environment: CaptureEnvironment) -> None:
        self.name = name
        self.notebook = Notebook.here()
        self.handle: Callable[[], WatchedRun | None] = lambda: None
        self._is_first = environment.rank <= 0
        self._has_name = True
        self._is_in_first_cell = True
        self._shown: dict[str, str] = {}
        self._shown_at = 0.0
        self._forget_cells: Callable[[], object] = lambda: None
        self._notes: tuple[str, ...] = ()
        address = environment.run_uri or _address(name, in_notebook=self.notebook is not None)
        plan = None
        if environment.run_uri:  # whoever set it judges the run
            rules_of(rules, subject=_SUBJECT)
        else:
            settings = read_settings(Path.cwd(), inherited())
            given = request_of(save, address, subject=_SUBJECT) if save is not None else None
            plan = plan_of(rules, settings=settings, subject=_SUBJECT, save=given)
            save = settings.capture if save is None else save
            self._notes = plan.notes if plan is not None and rules is not None else ()
        self.training = JudgedCapture(address, plan=plan, save=save)

    def begin(self, handle: WatchedRun) -> None:
        """Start the judging and the display."""
        self.handle = weakref.ref(handle)
        if self._is_first:
            self.training.judge(self._show, program=self._program())
        for note in self._notes:
            _print(f"warning: {note}")
        if self.notebook is not None:
            self._forget_cells = self.notebook.after_each_cell(self._cell_ran)
        if self.training.judging is not None:
            self._show()
        atexit.register(self._at_exit)

    def _program(self) -> tuple[str, ...]:
        """Return the words that stand for the training in lists of runs."""
        if self.notebook is not None:
            return ("notebook",)
        return tuple(sys.argv) if sys.argv and sys.argv[0] else ("python",)

    def judgement(self) -> Judgement:
        """Return the judgement so far; an empty one for a run without data."""
        if self.training.judging is not None:
            return self.training.judging.judgement()
        try:
            return judgement_of(read_run(self.training.location.uri))
        except TracksideError:
            return Judgement(self.training.location.uri, self.training.is_closed, (), ())

    def picture(self) -> _Picture:
        """Return the run as a notebook shows it."""
        return _Picture(self.judgement(), self.state(), self._sources())

    def _sources(self) -> SourceText:
        cells = self.notebook.cells if self.notebook is not None else ()
        return SourceText(self.training.location.uri, cells=cells)

    def state(self) -> str:
        """Return the state of the run in a few words."""
        judgement = self.judgement()
        problem = self.training.judging.problem if self.training.judging is not None else ""
        if problem:
            return problem
        phase = "ended" if self.training.is_closed else "watching"
        if self.training.judging is None:
            return f"{phase}, captured only" if not judgement.rules else f"{phase}, {judgement.headline()}"
        if judgement.judged_through < 0:
            return "nothing was captured" if self.training.judging.is_over else f"{phase}, no step judged yet"
        if self.training.is_closed and not self.training.judging.is_over:
            phase = "ended, the rules judge the last steps"
        return f"{phase}, {judgement.headline()}"

    def close(self, *, wait_seconds: float) -> None:
        """End the run, and wait for the last verdicts."""
        is_twice = wait_seconds == 0.0  # a cell may be run twice before any training
        if not self.training.close(wait_seconds=wait_seconds, drops_empty=is_twice, slow=self._is_slow):
            return
        atexit.unregister(self._at_exit)  # or it would keep the model alive
        if self.training.judging is not None and self.training.judging.is_over and wait_seconds:
            self._show(is_last=True)

    def _is_slow(self) -> None:
        if self.notebook is None:
            _print("the training has ended; the rules judge the last steps ...")
        self._show()

    def _at_exit(self) -> None:
        self._forget_cells()
        self.close(wait_seconds=JUDGING_SECONDS if self.notebook is None else KERNEL_SECONDS)

    def _cell_ran(self) -> None:
        """Show new problems below the cell that has run, and end the run if nobody can reach it any more."""
        try:
            if self._is_in_first_cell:
                self._is_in_first_cell = False
                self._has_name = self.handle() is not None
                self._shown = {group.group: group.lead.verdict_id for group in self.judgement().problems}
                return
            if self._has_name and self.handle() is None:
                self.close(wait_seconds=0.0)
            if self.training.judging is not None and self.training.judging.is_over and self.training.is_closed:
                self._forget_cells()
            self._show_new_below_cell()
        except Exception as error:  # noqa: BLE001 - the user's cell has run, and that is what counts
            _print(f"the findings cannot be shown: {type(error).__name__}: {error}")

    def _show_new_below_cell(self) -> None:
        if self.notebook is None or self.training.judging is None:
            return
        judgement = self.training.judging.judgement()
        new = [group for group in judgement.problems if self._shown.get(group.group) != group.lead.verdict_id]
        if new:
            self._shown |= {group.group: group.lead.verdict_id for group in new}
            verdicts = tuple([verdict for group in new for verdict in group.issues])
            found = Judgement(judgement.run, False, judgement.rules, verdicts)
            self.notebook.show_once(_Picture(found, self.state(), self._sources()))

    def _show(self, *, is_last: bool = False) -> None:
        """Bring the display of a notebook up to date, or print new problems."""
        if self.training.judging is None:
            return
        if self.notebook is not None:
            now = time.monotonic()
            if is_last or self.training.judging.is_over or now - self._shown_at >= SHOW_SECONDS:
                self._shown_at = now
                self.notebook.show(self.picture())
            return
        judgement = self.training.judging.judgement()
        for group in judgement.problems:
            key = f"{group.lead.verdict_id} {bool(group.standing)}"
            if self._shown.get(group.group) != key:
                self._shown[group.group] = key
                _print("\n".join(problem_as_text(group)))
        if is_last and judgement.rules:
            _print(f"{judgement.headline()}; trackside findings {typed_name(self.training.location.uri)}")


def _address(name: str, *, in_notebook: bool) -> str:
    """Return the address of a new run: `name`, with a number if a run of that name has ended here."""
    if not name:
        command = ("notebook",) if in_notebook else (Path(sys.argv[0] or "python").name,)
        return str(RUNS / run_name(command, now=time.time(), token=secrets.token_hex(2)))
    if "://" in name or not _has_ended(name):
        return name
    free = next(f"{name}-{n}" for n in range(2, MOST_NUMBERED) if not _has_ended(f"{name}-{n}"))
    _print(f"{name} has ended; this run lies in {free}")
    return free


def _has_ended(folder: str) -> bool:
    return (Path(folder).expanduser() / TENSORS / END_MARKER_KEY).exists()


def _print(text: str) -> None:
    write_message(f"trackside: {text}")
