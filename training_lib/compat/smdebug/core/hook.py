"""The state of a hook for scripts: its step and mode, saved steps, and tensors that are about to be saved.

`BaseHook` and `CallbackHook` are the classes for `isinstance` in scripts. Both take the arguments of the hooks;
the original's own constructors took its inner parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from smdebug import not_offered
from smdebug.core.checkpoint_watch import CheckpointWatch
from smdebug.core.config_constants import (
    LATEST_GLOBAL_STEP_SAVED,
    LATEST_GLOBAL_STEP_SEEN,
    LATEST_MODE_STEP,
    TRAINING_RUN,
)
from smdebug.core.configured_hook import ConfiguredHook, logger
from smdebug.core.modes import ModeKeys
from smdebug.exceptions import SMDebugValueError
from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.restart import state_at
from trackside.contracts.name_pattern import name_pattern
from trackside.contracts.run_layout import INDEX_PREFIX
from trackside.records.state_file import TrainingState

_SCALAR = "scalar/"


class ScalarCache(NamedTuple):
    """A scalar of the script that waits for the end of its step."""

    scalar_name: str
    scalar_val: float
    mode: ModeKeys
    sm_metric: bool
    write_tb: bool
    write_event: bool
    timestamp: float | None = None


class StepWriter(NamedTuple):
    """A sign that the open step will be saved, and its place. A thread of its own writes steps, not this object."""

    trial_dir: str
    worker: str
    step: int
    mode: ModeKeys

    def flush(self) -> None:
        """Do nothing: ended steps are written without it."""

    def close(self) -> None:
        """Do nothing: the step ends by itself."""


class BaseHook(ConfiguredHook):
    """A hook that captures, with its state for scripts.

    The open step is that of the script: after `optimizer.step()` the one just made, until a model is called again.
    """

    GRADIENT_PREFIX = "gradient/"
    INPUT_TENSOR_SUFFIX = "_input_"
    OUTPUT_TENSOR_SUFFIX = "_output_"
    SCALAR_PREFIX = _SCALAR

    chief_worker = "worker_0"
    metrics_writer = None  # SageMaker's metrics are not written

    _capture: Any  # a ScriptedCapture
    _watch: CheckpointWatch | None = None

    @property
    def worker(self) -> str:
        """This process's name in the run."""
        return self.chief_worker

    # Calls of the script.

    def set_mode(self, mode: ModeKeys) -> None:
        """Set the mode of the next steps.

        Raises:
            SMDebugValueError: It is no mode.
        """
        if not isinstance(mode, ModeKeys):
            raise SMDebugValueError(f"Invalid mode {mode}. Modes: {', '.join(ModeKeys.__members__)}.")
        self._capture.set_mode(mode.name)

    def save_tensor(
        self, tensor_name: str, tensor_value: Any, collections_to_write: str | list[str] = "default"
    ) -> None:
        """Save a value with the open step, in all of these collections, if one of them is due.

        A collection without a configuration follows the hook's `save_config`.
        """
        names = [collections_to_write] if isinstance(collections_to_write, str) else list(collections_to_write)
        self._capture.begin()
        mode, mode_step = self._capture.now.position()
        if any(self._is_due(name, mode, mode_step) for name in names):
            self._given[tensor_name] = names
            self._capture.save_tensor(tensor_name, tensor_value, collections=names)
        else:
            self._warn_once(
                f"unsaved/{tensor_name}",
                "%s was given at step %d, on which none of its collections (%s) is saved, as their save_config says.",
                tensor_name,
                mode_step,
                ", ".join(names),
            )

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """Save a number as `scalar/<name>` with the open step, which is saved for it.

        `timestamp` is its moment in seconds since the epoch, by default that of the step. A value that is no single
        number is logged once and left out, and a name of another type is written as a text.
        """
        if sm_metric:
            self._warn_once("sm_metric", "sm_metric is passed over: publish %s as a metric of your own.", name)
        self._capture.save_scalar(name, value, wall_time=timestamp or None)

    def export_collections(self) -> None:
        """Do nothing: the collections file follows every change by itself."""

    def record_trace_events(
        self,
        timestamp: float,
        training_phase: str = "",
        op_name: str = "",
        phase: str = "X",
        duration: float = 1,
        **kwargs: Any,
    ) -> None:
        """Log a warning once: Trackside writes no timeline."""
        self._warn_once("timeline", "record_trace_events is passed over: Trackside writes no timeline.")

    def close(self) -> None:
        """Save the last step and end the run. Nothing is captured any more; a second call does nothing."""
        self._capture.close()

    _cleanup = close

    def flush(self) -> None:
        """Store the steps that have ended, within some seconds."""
        self._capture.flush()

    def retire(self) -> None:
        """Capture nothing more, without the end of the run: another hook of this process writes it from now on.

        If the script has removed the run's folder, what is not stored yet is dropped.
        """
        is_gone = "://" not in self.out_dir and not Path(self.out_dir, INDEX_PREFIX).exists()
        self._capture.retire(is_gone=is_gone)

    @property
    def is_closed(self) -> bool:
        """True after `close`, or once another hook goes on with the run."""
        return bool(self._capture.is_over)

    # Where it is.

    @property
    def mode(self) -> ModeKeys:
        """The mode of the open step."""
        return ModeKeys[self._capture.now.mode]

    @property
    def init_step(self) -> int:
        """The step before the first one: -1, or the last step of an earlier instance of the training."""
        earlier = self._earlier_state()
        return -1 if earlier is None else earlier.last_seen_step

    @property
    def step(self) -> int:
        """The number of the step over all modes; `init_step` before the first."""
        return self._capture.now.step if self._capture.now.has_begun else self.init_step

    @property
    def mode_steps(self) -> dict[ModeKeys, int]:
        """The number of the step of each mode that has begun; that of GLOBAL is `step`."""
        earlier = self._earlier_state()
        begun = self._capture.now.mode_steps() if self._capture.now.has_begun else earlier.mode_steps if earlier else {}
        return {**{ModeKeys[name]: step for name, step in begun.items()}, ModeKeys.GLOBAL: self.step}

    @property
    def training_run(self) -> int:
        """The number of earlier starts of the training, by the states beside its checkpoints."""
        earlier = self._earlier_state()
        return 0 if earlier is None else earlier.training_run + 1

    # What it saves.

    @property
    def prepared_collections(self) -> bool:
        """True once a model was called: from then on the collections are fixed."""
        return bool(self._capture.now.has_begun)

    @property
    def exported_collections(self) -> bool:
        """True once a step was saved: the collections file is stored with it."""
        return self._capture.now.last_saved_step is not None

    @property
    def first_process(self) -> bool | None:
        """True once this process captures; None before. Trackside finds the training process by itself."""
        return True if self._capture.now.has_begun else None

    @property
    def last_saved_step(self) -> int | None:
        """The last saved step, over all modes and instances; None if no step was saved."""
        earlier = self._earlier_state()
        latest: int | None = self._capture.now.last_saved_step
        return latest if latest is not None or earlier is None else earlier.last_saved_step

    @property
    def writer(self) -> StepWriter | None:
        """The writer of the open step; None if it saves nothing so far."""
        if self._capture.is_over or not (self._capture.now.due_collections() or self._capture.now.open_tensors()):
            return None
        return StepWriter(self.out_dir, self.worker, self.step, self.mode)

    @property
    def tb_writers(self) -> dict[ModeKeys, StepWriter]:
        """The writers of files for TensorBoard, by mode; {} if none are written."""
        writer = self.writer
        return {} if writer is None or not self.tensorboard_dir else {writer.mode: writer}

    @property
    def scalar_cache(self) -> list[ScalarCache]:
        """The script's scalars that wait for the end of the open step."""
        waiting = self._capture.now.open_tensors()
        mode = self.mode
        return [
            ScalarCache(name.removeprefix(_SCALAR), float(value.reshape(-1)[0]), mode, False, True, True)
            for name, value in waiting.items()
            if name.startswith(_SCALAR)
        ]

    @property
    def custom_tensors_to_save(self) -> dict[str, tuple[Any, list[str]]]:
        """The script's tensors that wait for the end of the open step: (value, names of collections)."""
        waiting = self._capture.now.open_tensors()
        return {name: (waiting[name], names) for name, names in self._given.items() if name in waiting}

    @property
    def _given(self) -> dict[str, list[str]]:
        given: dict[str, list[str]] = self.__dict__.setdefault("_given_names", {})
        return given

    def should_save_tensor_or_collection(self, tensor_name: str, collection_name: str) -> bool:
        """Return True if the collection is due at the open step, and its regexes, if it has any, find the name."""
        if collection_name not in self._capture.now.due_collections():
            return False
        if collection_name == "gradients":  # as the original spells them for this question
            tensor_name = f"gradients/{tensor_name.split(':', maxsplit=1)[0]}Grad"
        regexes = self.get_collection(collection_name).include_regex
        return not regexes or any(name_pattern(regex).search(tensor_name) for regex in regexes)

    def _get_collections_to_save_for_step(self) -> set[Any]:
        """Return the collections that the open step saves."""
        return {self.get_collection(name) for name in self._capture.now.due_collections()}

    def _get_num_workers(self) -> int:
        """Return the number of processes of the training, as far as the framework knows them."""
        return 1

    @property
    def logger(self) -> Any:
        """The logger of the hook's warnings."""
        return logger

    def _warn_once(self, what: str, message: str, *args: object) -> None:
        warned: set[str] = self.__dict__.setdefault("_warned", set())
        if what not in warned:
            warned.add(what)
            logger.warning("trackside: " + message, *args)

    # What stays for the next instance, beside the checkpoints.

    def _earlier_state(self) -> TrainingState | None:
        """Return the last state of an earlier instance, or None. Its GLOBAL steps are those over all modes."""
        if "_earlier" not in self.__dict__:
            found = self.state_store.get_last_saved_state() if self.state_store is not None else None
            modes = {} if found is None else {k: v for k, v in found[LATEST_MODE_STEP].items() if k != "GLOBAL"}
            self._earlier: TrainingState | None = None
            if found:
                seen, saved = found[LATEST_GLOBAL_STEP_SEEN], found[LATEST_GLOBAL_STEP_SAVED]
                self._earlier = TrainingState(found[TRAINING_RUN], seen, saved, modes)
        return self._earlier

    def _step_ends(self, position: Position, last_saved_step: int | None) -> None:
        if self.state_store is None or self.worker != self.chief_worker:
            return
        if self._watch is None:
            self._watch = CheckpointWatch(self.state_store)
        self._watch.step_ends(lambda: self._state(position, last_saved_step))

    def _state(self, position: Position, last_saved_step: int | None) -> dict[str, Any]:
        if last_saved_step is None:
            last_saved_step = self.last_saved_step
        state = state_at(position, training_run=self.training_run, last_saved_step=last_saved_step)
        modes = {**state.mode_steps, "GLOBAL": state.last_seen_step}
        return {
            TRAINING_RUN: state.training_run,
            LATEST_GLOBAL_STEP_SAVED: state.last_saved_step,
            LATEST_GLOBAL_STEP_SEEN: state.last_seen_step,
            LATEST_MODE_STEP: modes,
        }


class CallbackHook(BaseHook):
    """A hook that a framework calls back."""


__getattr__ = not_offered.attribute_of(__name__)
