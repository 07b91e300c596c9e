"""smdebug's hook for PyTorch, on Trackside's capture."""

from __future__ import annotations

import re
from typing import Any

import torch

from smdebug import not_offered
from smdebug.core import singleton_utils
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.hook import CallbackHook
from smdebug.exceptions import SMDebugError
from smdebug.pytorch.collection import Collection
from trackside.capture.place import Place
from trackside.contracts.capture_request import CaptureRequest
from trackside.frameworks.pytorch.ground.parameter_names import inner_modules, unwrapped
from trackside.frameworks.pytorch.script.capture import ScriptedCapture


class Hook(CallbackHook):
    """A hook that captures registered models; without any, those that optimizers train.

    A step ends with the optimizer's step; in EVAL and PREDICT, and without an optimizer, with the next call of the
    model. An inner failure is logged once and never ends the training. Only arguments of a wrong kind raise.
    """

    collection_class: type[BaseCollection] = Collection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for earlier in singleton_utils.hooks_of(self.out_dir):  # of a notebook's cell that runs again, for example
            earlier.retire()
        self._capture = ScriptedCapture(
            self._request,
            place=Place(tensors=self.out_dir),
            saves_nothing=self.dry_run,
            earlier=self._earlier_state(),
            step_ends=self._step_ends,
            as_smdebug=True,
        )
        singleton_utils.made(self)

    # Models and losses.

    def register_module(self, module: Any) -> None:
        """Capture this model.

        Raises:
            SMDebugError: It is no module.
            AssertionError: It was registered before.
        """
        if not isinstance(module, torch.nn.Module):
            raise SMDebugError(f"Only a torch.nn.Module can be registered, not a {type(module).__name__}.")
        known = {id(inner) for root in self._capture.roots for inner in root.modules()}
        assert id(module) not in known, f"Don't register module {type(module).__name__} twice."  # noqa: S101 - as it was
        self._capture.register(module)

    register_hook = register_module

    def register_loss(self, loss_module: Any) -> None:
        """Save the outputs of this loss module.

        Raises:
            AssertionError: It is no module.
        """
        assert isinstance(loss_module, torch.nn.Module), "A loss is registered as a module."  # noqa: S101 - as it was
        self._capture.register_loss(loss_module)

    def record_tensor_value(self, tensor_name: str, tensor_value: Any) -> None:
        """Save the value as `<tensor_name>_output_<k>`, as if it were a module's output, if its collection is due."""
        if not isinstance(tensor_value, torch.Tensor):
            what = "%s is no tensor but a %s, and is not recorded."
            self._warn_once(f"record/{tensor_name}", what, tensor_name, type(tensor_value).__name__)
            return
        self._capture.record(tensor_name, tensor_value)

    # Questions.

    def should_save_dataloader_metrics(self, metrics_name: str) -> bool:
        """Return False: nothing is profiled."""
        return False

    def count_parameters(self, model: torch.nn.Module) -> int:
        """Return the number of trainable elements in the model's parameters."""
        return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)

    @property
    def has_registered_module(self) -> bool:
        """True once a model was registered."""
        return bool(self._capture.roots)

    @property
    def has_registered_loss_module(self) -> bool:
        """True once a loss was registered."""
        return bool(self._capture.losses)

    @property
    def worker(self) -> str:
        """This process's name in the run."""
        distributed = torch.distributed
        is_one_of_many = distributed.is_available() and distributed.is_initialized()
        return f"worker_{distributed.get_rank() if is_one_of_many else 0}"

    def _get_num_workers(self) -> int:
        """Return the number of ranks."""
        distributed = torch.distributed
        is_one_of_many = distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if is_one_of_many else 1

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _inert_hook, ()

    def _request(self) -> CaptureRequest:
        for collection in self.collections_to_save():
            for requested in getattr(collection, "module_tensors", ()):
                name = self._name_of(requested.module)
                if name is None:
                    what = "a %s in the collection %s belongs to no registered model, and is not captured."
                    self._warn_once(f"module/{collection.name}", what, type(requested.module).__name__, collection.name)
                    continue
                sides = [
                    side for side, wanted in (("input", requested.inputs), ("output", requested.outputs)) if wanted
                ]
                collection.include([f"^{re.escape(name)}_{side}_" for side in sides])
        return self._capture_request()

    def _name_of(self, module: Any) -> str | None:
        for number, root in enumerate(map(unwrapped, self._capture.roots)):
            for path, inner in inner_modules(root):
                if inner is module:
                    root_name = type(root).__name__
                    return f"{root_name}.{path}" if number and path else (path or root_name)
        return None


class _InertHook(Hook):
    """The hook of a model that was loaded: it has no run, and captures nothing."""

    def __init__(self) -> None:
        self.out_dir, self.tensorboard_dir, self.state_store = "", None, None
        self._capture = ScriptedCapture(CaptureRequest, place=Place())
        self._capture.abandon()

    def save_tensor(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


def _inert_hook() -> Hook:
    return _InertHook()


def get_hook(json_config_path: str | None = None, create_if_not_exists: bool = False) -> Any:
    """Return the process's hook.

    If it has none: a new one by the configuration file if one is requested and the file exists, else None.
    """
    return singleton_utils.get_hook(
        json_config_path=json_config_path, hook_class=Hook, create_if_not_exists=create_if_not_exists
    )


del_hook, set_hook = singleton_utils.del_hook, singleton_utils.set_hook
__getattr__ = not_offered.attribute_of(__name__)
