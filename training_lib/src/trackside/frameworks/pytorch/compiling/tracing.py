"""Functions that keep our code out of the code that torch.compile compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


# True in what is being compiled, which must not come to what follows.
is_dynamo_compiling: Callable[[], bool] = torch.compiler.is_dynamo_compiling


def _loaded_compiler() -> object:
    return sys.modules.get("torch._dynamo")


# The compiler of the functions that are called from here on in this thread; None for none. Private: if PyTorch does not
# show it, a loaded compiler counts, which it is as soon as an optimizer was built.
compiler_at_work: Callable[[], object] = getattr(
    torch._C._dynamo.eval_frame, "get_eval_frame_callback", _loaded_compiler
)


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` hidden, with all its calls, from torch.compile, which would compile it into the user's step.

    `torch.compiler.disable` does that but imports the compiler, which takes seconds, and costs time at each call. So it
    is used only once the compiler is in use.
    """
    hidden: Callable[P, R] | None = None

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal hidden
        if not is_dynamo_compiling() and compiler_at_work() is None:
            return function(*args, **kwargs)
        if hidden is None:
            hidden = torch.compiler.disable(function)  # type: ignore[no-untyped-call] # torch's own omission
        return hidden(*args, **kwargs)

    skip_frame(run)
    return run


def skip_frame(function: Callable[..., Any]) -> None:
    """Make torch.compile leave the function's own frame alone, without importing the compiler.

    Both ways are private. With neither, a training step that is compiled as a whole compiles this frame too.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        only_this_frame = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, only_this_frame)
    elif hasattr(frames, "skip_code"):  # before torch 2.7
        frames.skip_code(function.__code__)
