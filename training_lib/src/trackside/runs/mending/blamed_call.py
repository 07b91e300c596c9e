"""The call in a training script that a cause is about, if the script has exactly one such call."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.repair import Place, PlaceKind

MOST_BYTES = 1 << 20
MOST_TEXT = 200

_OPTIMIZER, _LOSS = "the optimizer", "the loss"  # whose type the run recorded
_LOADER = ("DataLoader",)
# Names of calls, or a thing whose type the run recorded.
_CALLS: Mapping[Cause, str | tuple[str, ...]] = {
    Cause.LEARNING_RATE_TOO_HIGH: _OPTIMIZER,
    Cause.LEARNING_RATE_TOO_LOW: _OPTIMIZER,
    Cause.WEIGHT_DECAY_TOO_STRONG: _OPTIMIZER,
    Cause.MOMENTUM_TOO_HIGH: _OPTIMIZER,
    Cause.PARAMETERS_NOT_IN_OPTIMIZER: _OPTIMIZER,
    Cause.WRONG_LOSS: _LOSS,
    Cause.MISSING_ZERO_GRAD: ("backward",),
    Cause.STEP_ORDER: ("zero_grad",),
    Cause.TRAIN_EVAL_MODE: ("eval",),
    Cause.FROZEN_PARAMETERS: ("detach", "requires_grad_"),
    Cause.SYMMETRIC_INITIALIZATION: ("zeros_", "ones_", "constant_", "fill_"),
    Cause.DOUBLE_SOFTMAX: ("softmax", "Softmax", "log_softmax", "LogSoftmax"),
    Cause.VANISHING_GRADIENTS: ("sigmoid", "Sigmoid", "tanh", "Tanh"),
    Cause.SATURATED_UNITS: ("sigmoid", "Sigmoid", "tanh", "Tanh"),
    Cause.CLIPPING_TOO_LOW: ("clip_grad_norm_", "clip_grad_value_"),
    Cause.DATA_ORDER: _LOADER,
    Cause.REPEATED_DATA: _LOADER,
    Cause.SMALL_BATCHES: _LOADER,
    Cause.DROPOUT_TOO_STRONG: ("Dropout", "dropout"),
    Cause.LEARNING_RATE_SCHEDULE: (
        "StepLR",
        "MultiStepLR",
        "ExponentialLR",
        "CosineAnnealingLR",
        "OneCycleLR",
        "LambdaLR",
        "LinearLR",
    ),
}


def blamed_call(script: str, cause: Cause, facts: ModelFacts | None, *, recorded: str = "") -> Place | None:
    """Return the one call of the script that a cause is about; None for no such call, or more than one.

    Args:
        script: Path of the script on this machine; "" if it is not known.
        cause: The likeliest cause.
        facts: Facts about the program, for the types of its optimizers and losses; None without any.
        recorded: The line that the finding recorded. If it has such a call itself, the answer is None.
    """
    names = _names(_CALLS.get(cause, ()), facts)
    if not names or not script.endswith(".py") or any(f"{name}(" in recorded for name in names):
        return None
    path = Path(script)
    try:
        state = path.stat()
        by_name = _lines_of_calls(path, state.st_mtime_ns, state.st_size) if state.st_size <= MOST_BYTES else {}
        lines = {line for name in names for line in by_name.get(name, ())}
        if len(lines) != 1:
            return None
        (number,) = lines
        text = path.read_text(encoding="utf-8").splitlines()[number - 1].strip()
    except (OSError, ValueError, IndexError):
        return None
    return Place(path.name, number, text[:MOST_TEXT], PlaceKind.SEARCHED)


@lru_cache(maxsize=4)
def _lines_of_calls(path: Path, changed_at: int, size: int) -> Mapping[str, frozenset[int]]:
    """Return the lines of each call by the last name of what is called; none of a script that does not parse.

    Args:
        path: The script.
        changed_at: Moment of its last change, by which an answer is kept.
        size: Its bytes, too.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    found: dict[str, set[int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found.setdefault(_called(node), set()).add(node.lineno)
    return {name: frozenset(lines) for name, lines in found.items()}


def _names(calls: str | tuple[str, ...], facts: ModelFacts | None) -> frozenset[str]:
    if not isinstance(calls, str):
        return frozenset(calls)
    if facts is None:
        return frozenset()
    made = facts.optimizers if calls == _OPTIMIZER else facts.losses
    return frozenset(each.type_name for each in made if each.type_name)


def _called(call: ast.Call) -> str:
    """Return the last name of what is called: `SGD` of `torch.optim.SGD(...)`."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
