"""The smallest change of a script as text, where a cause and its line settle it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from trackside.contracts.cause import Cause
from trackside.contracts.repair import Edit

Lines = Sequence[str]
Changed = Mapping[int, tuple[str, ...]]  # by index of a line, the lines in its place

SMALL_DEVIATION = 0.02  # of weights, as transformers start with
USUAL_NORM = 1.0  # of gradients that are clipped
_STEP, _CLEARING = re.compile(r"(\w+)\.step\("), re.compile(r"\.zero_grad\(")
_EVAL = re.compile(r"(\w+)\.eval\(\)")
_SOFTMAX = re.compile(r"\.(log_)?softmax\([^()]*\)")
_FLAT = re.compile(r"\b(sigmoid|tanh|Sigmoid|Tanh)(?=\()")
_LISTED = re.compile(r"=\s*\[(\s*(\w+|torch\.nn)\.[A-Z]\w*\(.*\]\s*$)")
_ALIKE = re.compile(r"\b(?:zeros_|ones_|constant_|fill_)\(([^(),]+)(?:,[^()]*)?\)")
_FROZEN = (
    (".detach()", ""),
    ("requires_grad_(False)", "requires_grad_(True)"),
    ("requires_grad = False", "requires_grad = True"),
)


def edits_of(text: str, line: int, cause: Cause) -> tuple[Edit, ...]:
    """Return the changes of lines that mend a cause; none where they are not sure, or make no Python.

    Args:
        text: The script.
        line: The number of the blamed line.
        cause: The cause.
    """
    lines = text.splitlines()
    change = _CHANGES.get(cause)
    if change is None or not 0 < line <= len(lines):
        return ()
    return _checked(lines, change(lines, line - 1))


def with_setting(text: str, line: int, name: str, value: float) -> tuple[Edit, ...]:
    """Return the change of a call on one line that gives a keyword another value.

    Args:
        text: The script.
        line: The number of the line with the call.
        name: The keyword.
        value: Its value.
    """
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return ()
    old = lines[line - 1]
    given = re.compile(rf"\b{name}\s*=\s*[-+0-9.e]+")
    new = given.sub(f"{name}={value:g}", old) if given.search(old) else _with_argument(old, f"{name}={value:g}")
    return _checked(lines, {line - 1: (new,)})


def without_line(text: str, line: int) -> tuple[Edit, ...]:
    """Return the change that leaves a line out."""
    return _checked(text.splitlines(), {line - 1: ()})


def _checked(lines: Lines, changed: Changed) -> tuple[Edit, ...]:
    """Return the changes if anything changes and the result is Python."""
    edits = tuple(Edit(at + 1, lines[at], "\n".join(new)) for at, new in sorted(changed.items()) if (lines[at],) != new)
    mended = [line for at, old in enumerate(lines) for line in changed.get(at, (old,))]
    try:
        ast.parse("\n".join(mended))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    return edits


def _with_argument(line: str, argument: str) -> str:
    return f"{line.rstrip()[:-1]}, {argument})" if line.rstrip().endswith(")") else line


def _clear(lines: Lines, at: int) -> Changed:
    name = _only({found[1] for line in lines if (found := _STEP.search(line))})
    return {at: (f"{_indent(lines[at])}{name}.zero_grad()", lines[at])} if name else {}


def _clear_after_the_step(lines: Lines, at: int) -> Changed:
    step = next((number for number in range(at + 1, len(lines)) if _STEP.search(lines[number])), None)
    return {at: (), step: (lines[step], _indent(lines[step]) + lines[at].strip())} if step is not None else {}


def holds_layers_in_a_list(line: str) -> bool:
    """Return True for a line that puts layers into a plain list, where a model does not see them."""
    return _LISTED.search(line) is not None


def _hold_all(lines: Lines, at: int) -> Changed:
    """Let the model hold its layers, or the optimizer all parameters of the model that was made last."""
    if holds_layers_in_a_list(lines[at]):
        return {at: (_LISTED.sub(r"= \2.ModuleList([\1", lines[at]).rstrip() + ")",)}
    made = re.sub(r"(\w+)(?:\.\w+)+\.parameters\(\)", r"\1.parameters()", lines[at])
    model = re.search(r"(\w+)\.parameters\(\)", made)
    if model is None:
        return {}
    again = [number for number, line in enumerate(lines) if number > at and re.match(rf"{model[1]}\s*=", line)]
    return {at: (), again[-1]: (lines[again[-1]], made)} if again else {at: (made,)}


def _drop_softmax(lines: Lines, at: int) -> Changed:
    return {at: (_SOFTMAX.sub("", lines[at]),)}


def _take_logarithms(lines: Lines, at: int) -> Changed:
    """A loss of log-probabilities that is given probabilities."""
    takes = "nll_loss(" in lines[at] or "NLLLoss" in lines[at]
    return {at: (lines[at].replace(".softmax(", ".log_softmax("),)} if takes else {}


def _turn_the_sign(lines: Lines, at: int) -> Changed:
    return {at: (lines[at].replace("= -", "= ", 1),)}


def _rectify(lines: Lines, at: int) -> Changed:
    return {at: (_FLAT.sub(lambda found: "ReLU" if found[1][0].isupper() else "relu", lines[at]),)}


def _attach(lines: Lines, at: int) -> Changed:
    found = lines[at]
    for old, new in _FROZEN:
        found = found.replace(old, new)
    return {at: (found,)}


def _start_at_random(lines: Lines, at: int) -> Changed:
    return {at: (_ALIKE.sub(rf"normal_(\1, std={SMALL_DEVIATION})", lines[at]),)}


def _train_mode(lines: Lines, at: int) -> Changed:
    """Set the one model that is ever set to evaluate to train, before gradients are cleared."""
    del at  # the mode is set elsewhere than where a layer is made
    model = _only({found[1] for line in lines if (found := _EVAL.search(line))})
    cleared = next((number for number, line in enumerate(lines) if _CLEARING.search(line)), None)
    if cleared is None or not model:
        return {}
    return {cleared: (f"{_indent(lines[cleared])}{model}.train()", lines[cleared])}


def _raise_the_limit(lines: Lines, at: int) -> Changed:
    return {at: (re.sub(r"[-+0-9.e]+(?=\)\s*$)", f"{USUAL_NORM}", lines[at]),)}


_CHANGES: Mapping[Cause, Callable[[Lines, int], Changed]] = {
    Cause.MISSING_ZERO_GRAD: _clear,
    Cause.STEP_ORDER: _clear_after_the_step,
    Cause.PARAMETERS_NOT_IN_OPTIMIZER: _hold_all,
    Cause.DOUBLE_SOFTMAX: _drop_softmax,
    Cause.WRONG_LOSS: _take_logarithms,
    Cause.LOSS_SIGN: _turn_the_sign,
    Cause.VANISHING_GRADIENTS: _rectify,
    Cause.SATURATED_UNITS: _rectify,
    Cause.FROZEN_PARAMETERS: _attach,
    Cause.SYMMETRIC_INITIALIZATION: _start_at_random,
    Cause.TRAIN_EVAL_MODE: _train_mode,
    Cause.CLIPPING_TOO_LOW: _raise_the_limit,
}


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _only(names: set[str]) -> str:
    return names.pop() if len(names) == 1 else ""
