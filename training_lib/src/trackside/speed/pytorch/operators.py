"""Profiles of PyTorch's operators and kernels, by its own profiler, while a window asks for them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler

from trackside.profiling.windows import Recording, Write

TRACE = "trace.json"
_profiler: Any = profiler  # names without a promise: PyTorch offers no way to see that another profiler begins
_autograd: Any = torch.autograd


def begin_operator_profile() -> Recording | None:
    """Begin a profile of this thread and of the GPU. Return None while the script profiles by itself."""
    return None if _autograd._profiler_enabled() else _Operators()


class _Operators:
    """PyTorch's profiler at work. It makes way for one that the script begins: PyTorch would refuse that."""

    def __init__(self) -> None:
        device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call] # torch's own omission
        self._profile: Any = _profiler.profile(use_kineto=True, use_device=device)
        self._profile.__enter__()
        self._before = _profiler._prepare_profiler, _profiler._enable_profiler

        def prepare(*args: Any, **kwargs: Any) -> Any:
            self._make_way()
            return self._before[0](*args, **kwargs)

        def enable(*args: Any, **kwargs: Any) -> Any:
            self._make_way()
            return self._before[1](*args, **kwargs)

        self._in_place = prepare, enable
        _profiler._prepare_profiler, _profiler._enable_profiler = self._in_place

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        if (_profiler._prepare_profiler, _profiler._enable_profiler) == self._in_place:
            _profiler._prepare_profiler, _profiler._enable_profiler = self._before
        profile, self._profile = self._profile, None
        if profile is None:
            return None
        profile.__exit__(None, None, None)
        results: Any = profile.kineto_results

        def write(folder: Path) -> None:
            path = folder / TRACE
            results.save(str(path))
            with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=3) as packed:
                shutil.copyfileobj(plain, packed)
            path.unlink()

        return write

    def _make_way(self) -> None:
        profile, self._profile = self._profile, None
        if profile is not None:
            profile.__exit__(None, None, None)
