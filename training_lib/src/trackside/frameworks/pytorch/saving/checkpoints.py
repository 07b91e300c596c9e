"""Notes where the script writes its checkpoints, so that an issue can name the one to go back to.

Functions that write are wrapped when training begins: each runs as it is, and afterwards its arguments are looked at.
Nothing is read of the file, and of the tensors their names, their shapes, and a few numbers of those on the CPU.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trackside.contracts.run.checkpoint import Checkpoint
from trackside.frameworks.pytorch.compiling.tracing import is_dynamo_compiling
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.saving.checkpoint_contents import CheckpointContents, first_values

_DEEPEST = 3
_OPTIMIZER = {"state", "param_groups"}


class _Writer(NamedTuple):
    """A function that writes: its module and name, and the names of its content and path, as in its signature.

    Numbers are places among its positional arguments; None if the argument has none.
    """

    module: str
    function: str
    content: str
    path: str
    path_place: int | None = 1


_WRITERS = (
    _Writer("torch", "save", "obj", "f"),
    _Writer("torch.distributed.checkpoint", "save", "state_dict", "checkpoint_id", path_place=None),
    _Writer("safetensors.torch", "serialize_file", "tensor_dict", "filename"),
    _Writer("lightning.fabric.plugins.io.torch_io", "_atomic_save", "checkpoint", "filepath"),
    _Writer("lightning_fabric.plugins.io.torch_io", "_atomic_save", "checkpoint", "filepath"),
)


class ScriptCheckpoints:
    """Watches the writers of checkpoints of one training.

    Args:
        contents: Compares the contents with the trained models.
        step: Returns the number of the newest step that has ended.
        written: Called with each checkpoint.
        fuse: Keeps errors of ours from the script.
    """

    def __init__(
        self,
        contents: CheckpointContents,
        *,
        step: Callable[[], int],
        written: Callable[[Checkpoint], None],
        fuse: Fuse,
    ) -> None:
        self._contents, self._step, self._written = contents, step, written
        self._saved = fuse.protect(self._look)

    def install(self) -> list[Callable[[], None]]:
        """Wrap the writers of the libraries that are imported. Return the functions that undo it."""
        return [
            _wrapped(module, writer, self._saved)
            for writer in _WRITERS
            if (module := sys.modules.get(writer.module)) is not None and hasattr(module, writer.function)
        ]

    def _look(self, content: Any, target: Any) -> None:
        path = _path_of(target)
        step = self._step()
        if not path or step < 0:
            return
        has_model = self._contents.add(content, path)
        if has_model or _holds_optimizer(content):
            self._written(Checkpoint(step, path, has_model=has_model))


def _wrapped(module: Any, writer: _Writer, saved: Callable[..., None]) -> Callable[[], None]:
    original = getattr(module, writer.function)

    @functools.wraps(original)
    def write(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not is_dynamo_compiling():
            content = args[0] if args else kwargs.get(writer.content)
            place = writer.path_place
            saved(content, args[place] if place is not None and len(args) > place else kwargs.get(writer.path))
        return result

    setattr(module, writer.function, write)

    def undo() -> None:
        if getattr(module, writer.function, None) is write:  # else another tool has wrapped ours
            setattr(module, writer.function, original)

    return undo


def _path_of(target: Any) -> str:
    """Return the absolute path of a path or an open file; "" for memory."""
    if not isinstance(target, (str, os.PathLike)):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, os.PathLike)):
        return ""
    path = os.fspath(target)
    if not isinstance(path, str) or not path:
        return ""
    return path if "://" in path else os.path.abspath(path)


def _holds_optimizer(content: Any, *, depth: int = 0) -> bool:
    if isinstance(content, Mapping):
        if content.keys() >= _OPTIMIZER:
            return True
        inner: Iterable[Any] = content.values()
    elif isinstance(content, (list, tuple)):  # Lightning's
        inner = content
    else:
        return False
    return depth < _DEEPEST and any(_holds_optimizer(each, depth=depth + 1) for each in first_values(inner))
