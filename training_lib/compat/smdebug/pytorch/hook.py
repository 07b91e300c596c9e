"""smdebug's hook for PyTorch, on Trackside's capture."""

from __future__ import annotations

import re
from typing import Any

import torch

from smdebug import not_offered
from smdebug.core import singleton_utils
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.configured_hook import ConfiguredHook, logger
from smdebug.core.modes import ModeKeys
from smdebug.core.singleton_utils import del_hook, set_hook
from smdebug.exceptions import SMDebugError, SMDebugValueError
from smdebug.pytorch.collection import Collection
from trackside.contracts.capture_request import CaptureRequest
from trackside.frameworks.pytorch.names import inner_modules, unwrapped
from trackside.frameworks.pytorch.scripted import Place, ScriptedCapture

__all__ = ["Hook", "del_hook", "get_hook", "set_hook"]


class Hook(ConfiguredHook):
    """Captures the models that are registered; without any, those that optimizers train.

    A step ends with the optimizer's step; in EVAL and PREDICT, and without an optimizer, with the next call of the
    model. What fails inside is said once and never ends the training. Only arguments of a wrong kind raise.
    """

    collection_class: type[BaseCollection] = Collection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._said: set[str] = set()
        self._capture = ScriptedCapture(self._request, place=Place(tensors=self.out_dir), saves_nothing=self.dry_run)

    # Models and losses.

    def register_module(self, module: Any) -> None:
        """Captures this model. Errors: `SMDebugError` for what is none; `AssertionError` for one known already."""
        if not isinstance(module, torch.nn.Module):
            raise SMDebugError(f"Only a torch.nn.Module can be registered, not a {type(module).__name__}.")
        known = {id(inner) for root in self._capture.roots() for inner in root.modules()}
        assert id(module) not in known, f"Don't register module {type(module).__name__} twice."  # noqa: S101 - as it was
        self._capture.register(module)

    register_hook = register_module

    def register_loss(self, loss_module: Any) -> None:
        """Saves what this loss module gives. Errors: `AssertionError` for what is no module."""
        assert isinstance(loss_module, torch.nn.Module), "A loss is registered as a module."  # noqa: S101 - as it was
        self._capture.register_loss(loss_module)

    # Steps and modes.

    def set_mode(self, mode: ModeKeys) -> None:
        """Says what the next steps are for. Errors: `SMDebugValueError`."""
        if not isinstance(mode, ModeKeys):
            raise SMDebugValueError(f"Invalid mode {mode}. Modes: {', '.join(ModeKeys.__members__)}.")
        self._capture.set_mode(mode.name)

    @property
    def mode(self) -> ModeKeys:
        """What the open step is for."""
        return ModeKeys[self._capture.mode]

    @property
    def step(self) -> int:
        """The number of the open step over all modes; -1 before the first."""
        return self._capture.step

    @property
    def mode_steps(self) -> dict[ModeKeys, int]:
        """The number of the open step of each mode that has begun."""
        return {ModeKeys[name]: step for name, step in self._capture.mode_steps().items()}

    # The user's own values.

    def save_tensor(
        self, tensor_name: str, tensor_value: Any, collections_to_write: str | list[str] = "default"
    ) -> None:
        """Saves a value with the open step, in all of these collections, if one of them is due.

        A collection that nobody has configured is saved as the hook's `save_config` says.
        """
        names = [collections_to_write] if isinstance(collections_to_write, str) else list(collections_to_write)
        self._capture.begin()
        mode, mode_step = self._capture.position()
        if any(self._is_due(name, mode, mode_step) for name in names):
            self._capture.save_tensor(tensor_name, tensor_value, collections=names)
        else:
            self._say_once(
                f"unsaved/{tensor_name}",
                "%s was given at step %d, on which none of its collections (%s) is saved, as their save_config says.",
                tensor_name,
                mode_step,
                ", ".join(names),
            )

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """Saves a number as `scalar/<name>` with the open step, which is saved for it. `timestamp` is passed over."""
        if sm_metric:
            self._say_once("sm_metric", "sm_metric is passed over: publish %s as a metric of your own.", name)
        self._capture.save_scalar(name, value)

    def record_tensor_value(self, tensor_name: str, tensor_value: Any) -> None:
        """Saves it as `<tensor_name>_output_<k>`, as if a module had given it, if it belongs to what is due."""
        if not isinstance(tensor_value, torch.Tensor):
            what = "%s is no tensor but a %s, and is not recorded."
            self._say_once(f"record/{tensor_name}", what, tensor_name, type(tensor_value).__name__)
            return
        self._capture.record(tensor_name, tensor_value)

    # Questions.

    def should_save_tensor_or_collection(self, tensor_name: str, collection_name: str) -> bool:
        """True if the collection is due on the open step."""
        return collection_name in self._capture.due_collections()

    def should_save_dataloader_metrics(self, metrics_name: str) -> bool:
        """False: nothing is profiled."""
        return False

    def count_parameters(self, model: torch.nn.Module) -> int:
        """How many numbers of the model are trained."""
        return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)

    @property
    def prepared_collections(self) -> bool:
        """True once a model was called: from then on it is settled what is saved."""
        return self._capture.has_begun

    @property
    def worker(self) -> str:
        """This process's name in the run."""
        distributed = torch.distributed
        is_one_of_many = distributed.is_available() and distributed.is_initialized()
        return f"worker_{distributed.get_rank() if is_one_of_many else 0}"

    chief_worker = "worker_0"

    @property
    def logger(self) -> Any:
        """Where the hook says what is wrong."""
        return logger

    # The end.

    def export_collections(self) -> None:
        """Does nothing: the collections file follows every change by itself."""

    def record_trace_events(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing, and says so: there is no timeline."""
        self._say_once("timeline", "record_trace_events is passed over: Trackside writes no timeline.")

    def close(self) -> None:
        """Saves the last step and ends the run. Nothing is captured any more; a second call does nothing."""
        self._capture.close()

    _cleanup = close

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _inert_hook, ()

    def _request(self) -> CaptureRequest:
        for collection in self.collections_to_save():
            for asked in getattr(collection, "module_tensors", ()):
                name = self._name_of(asked.module)
                if name is None:
                    what = "a %s in the collection %s belongs to no registered model, and is not captured."
                    self._say_once(f"module/{collection.name}", what, type(asked.module).__name__, collection.name)
                    continue
                sides = [side for side, wanted in (("input", asked.inputs), ("output", asked.outputs)) if wanted]
                collection.include([f"^{re.escape(name)}_{side}_" for side in sides])
        return self._capture_request()

    def _name_of(self, module: Any) -> str | None:
        for number, root in enumerate(map(unwrapped, self._capture.roots())):
            for path, inner in inner_modules(root):
                if inner is module:
                    root_name = type(root).__name__
                    return f"{root_name}.{path}" if number and path else (path or root_name)
        return None

    def _say_once(self, what: str, message: str, *args: object) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning("Trackside: " + message, *args)


class _InertHook(Hook):
    """The hook of a model that was loaded: it has no run, and captures nothing."""

    def __init__(self) -> None:
        self._said = set()
        self._capture = ScriptedCapture(CaptureRequest, place=Place())
        self._capture.abandon()

    def save_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing."""


def _inert_hook() -> Hook:
    return _InertHook()


def get_hook(json_config_path: str | None = None, create_if_not_exists: bool = False) -> Any:
    """The process's hook; one made of the configuration file if asked for and there is one, else None."""
    return singleton_utils.get_hook(
        json_config_path=json_config_path, hook_class=Hook, create_if_not_exists=create_if_not_exists
    )


__getattr__ = not_offered.attribute_of(__name__)
