"""smdebug's hook for Keras, on Trackside's capture: a callback, for loops with `GradientTape` too."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from smdebug import not_offered
from smdebug.core import singleton_utils
from smdebug.core.collection import DEFAULT_TF_COLLECTIONS
from smdebug.core.collection import Collection as BaseCollection
from smdebug.core.hook import BaseHook
from smdebug.core.hook_configuration import CAPTURED
from smdebug.core.modes import ModeKeys
from smdebug.exceptions import SMDebugTypeError
from smdebug.tensorflow.collection import Collection
from smdebug.tensorflow.constants import TF_DEFAULT_SAVED_COLLECTIONS
from trackside.adapters.keras.adapter import KerasAdapter
from trackside.adapters.keras.names import OF_SMDEBUG as NAMES
from trackside.adapters.keras.values import array_of
from trackside.adapters.shared.listening import ListeningScript
from trackside.capture.place import Place
from trackside.capture.session import SessionOptions
from trackside.capture.steps.collection import KERAS_REGEX, OF_SMDEBUG
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.name_pattern import name_pattern

_LAYERS = r"^(?=.*/(?:inputs|outputs)(?:_\d+)?$)"  # what a layer's input or output is called


class KerasHook(BaseHook, keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A callback of Keras 3 that captures `fit`, `evaluate` and `predict`, and loops with `GradientTape`.

    An inner failure is logged once and never ends the training. Only arguments of a wrong kind raise.
    """

    collection_class: type[BaseCollection] = Collection
    known_collections = frozenset(DEFAULT_TF_COLLECTIONS)
    saved_collections = tuple(TF_DEFAULT_SAVED_COLLECTIONS)
    captured_collections = CAPTURED | {"optimizer_variables"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        keras.callbacks.Callback.__init__(self)
        BaseHook.__init__(self, *args, **kwargs)
        for earlier in singleton_utils.hooks_of(self.out_dir):  # of a notebook's cell that runs again, for example
            earlier.retire()
        options = SessionOptions(
            saves_nothing=self.dry_run,
            earlier=self._earlier_state(),
            holds_last_step=True,
            awaits_last_step=True,
            kinds_of_regex=OF_SMDEBUG | {"metrics", "optimizer_variables"},
            regexes=KERAS_REGEX,
        )
        make = functools.partial(KerasAdapter, names=NAMES)
        self._capture = ListeningScript(
            self._request,
            make,
            place=Place(tensors=self.out_dir),
            options=options,
            array_of=_array_of,
            progressed=self._step_ends,
        )
        self.has_registered_model = False
        singleton_utils.made(self)

    @classmethod
    def hook_from_config(cls, json_config_path: str | None = None) -> Any:
        """Return a hook by a configuration file; the same as `create_from_json_file`."""
        return cls.create_from_json_file(json_config_path)

    # Called by Keras.

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to capture."""
        self._capture.begin()

    on_test_begin = on_predict_begin = on_train_begin

    # Called by the script.

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Return the optimizer as it is: gradients and its variables are seen without a wrapper."""
        return optimizer

    def wrap_tape(self, tape: Any) -> Any:
        """Begin to capture, in the mode TRAIN. Return the tape as it is."""
        self.set_mode(ModeKeys.TRAIN)
        self._capture.begin()
        return tape

    def register_model(self, model: Any) -> None:
        """Note the model. Layers are seen without it."""
        self.set_model(model)
        self.has_registered_model = True

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """Save a number as `scalar/<name>` with the step that the script is in, which is saved for it."""
        super().save_scalar(name, value, sm_metric=sm_metric, timestamp=timestamp)

    def record_tensor_value(self, tensor_name: str, tensor_value: Any) -> None:
        """Save a value as a loss if that is its name, else as a metric. Use `save_tensor`."""
        is_loss = tensor_name in ("loss", "val_loss")
        self.save_tensor(tensor_name, tensor_value, "losses" if is_loss else "metrics")

    def should_save_layer(self, layer_name: str) -> bool:
        """Return True if the open step saves inputs or outputs of this layer."""
        return self.should_save_tensor_or_collection(layer_name, "layers")

    def should_save_tensor_or_collection(self, tensor_name: str, collection_name: str) -> bool:
        """Return True if the collection is due at the open step, or another one that has this tensor."""
        due = self._capture.now.due_collections()
        return collection_name in due or any(
            name_pattern(regex).search(tensor_name) for name in due for regex in self.get_collection(name).include_regex
        )

    @contextmanager
    def profiler(self, mode: ModeKeys = ModeKeys.TRAIN) -> Iterator[None]:
        """Set the mode and begin to capture: `with hook.profiler():`. `trackside run --profile` profiles."""
        self.set_mode(mode)
        self._capture.begin()
        yield

    def collections_to_save(self) -> list[BaseCollection]:
        """Return the requested collections. SageMaker's metrics are not written."""
        found = super().collections_to_save()
        return [each for each in found if each.name != "sm_metrics" or each.include_regex or each.tensor_names]

    def _request(self) -> CaptureRequest:
        layers = self.get_collection("layers")
        own = [regex for regex in layers.include_regex if not regex.startswith(_LAYERS)]
        layers.include_regex = [f"{_LAYERS}.*?(?:{regex})" for regex in own] or [_LAYERS]
        return self._capture_request()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return keras.callbacks.Callback, ()


def names_of_variable(variable: Any) -> tuple[str, str]:
    """Return the names under which a variable of a model is saved: in `fit`, and in a loop by hand.

    Raises:
        SMDebugTypeError: It is no variable of Keras.
    """
    if not isinstance(variable, keras.Variable):
        kind = type(variable).__name__
        raise SMDebugTypeError(
            f"Only a variable of a Keras model can be added to a collection, not a {kind}. A layer goes to"
            " `add_keras_layer`, a value of your own to `hook.save_tensor`."
        )
    return NAMES.weight(variable, is_batch=True), NAMES.weight(variable, is_batch=False)


def _array_of(value: Any) -> np.ndarray | None:
    """Return a tensor, variable, array, number, text or list of the script as an array; None for anything else."""
    if isinstance(value, (dict, set)) or value is None:
        return None
    return array_of(value) if keras.ops.is_tensor(value) or isinstance(value, keras.Variable) else np.array(value)


__getattr__ = not_offered.attribute_of(__name__)
