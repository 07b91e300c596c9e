"""What one look into the graph of a loss costs the training thread, part by part, and some facts about a program.

    python -m benchmarks.looks_cost [--write docs/capture-overhead.md]

Processor time of the training thread, the least of `ROUNDS` looks, on graphs made anew for each. Hooks that fire in the
backward pass count as the difference of two passes, with them and without; so do functions and modules that are
watched, beside the same calls unwatched.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.restart import read_state, state_at, write_state
from trackside.frameworks.pytorch.data.order_seed import order_seed
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.autocast import AutocastLayers
from trackside.frameworks.pytorch.facts.detectors.optimizers.lost_state import LostStates
from trackside.frameworks.pytorch.facts.model_facts import mode_flags
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.losses.attention import attention_nodes, numbers_of
from trackside.frameworks.pytorch.losses.terms import TermGradients
from trackside.frameworks.pytorch.modes.random_evaluation import RandomEvaluation
from trackside.storage.local import LocalStore

ROUNDS = 25
CALLS = 100  # of what takes less than some microseconds
LOOKS, FACTS = "looks", "facts"  # what the tables are called between their markers

Row = tuple[str, str, float]


def _least(work: Callable[[Any], object], prepare: Callable[[], Any]) -> float:
    """Return the least processor time of `work` on what `prepare` makes, in microseconds."""
    found = []
    for _ in range(ROUNDS):
        prepared = prepare()
        began = time.thread_time()
        work(prepared)
        found.append(time.thread_time() - began)
    return 1e6 * min(found)


def _chain(layers: int, width: int = 64) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)])


def _two_terms(model: nn.Module) -> torch.Tensor:
    x = torch.randn(64, 64)
    shared = model(x)
    loss: torch.Tensor = functional.mse_loss(shared, x) + 0.1 * shared.pow(2).mean()
    return loss


def _looked(loss: torch.Tensor) -> None:
    looked = TermGradients(loss.grad_fn, lambda function: function)
    loss.backward()
    looked.sizes()


def _blocks(layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def look_rows() -> Iterator[Row]:
    """Return (look, when, microseconds) of looks into the graph of a loss."""
    for layers in (2, 50):
        model = _chain(layers)
        with_looks = _least(_looked, lambda model=model: _two_terms(model))  # type: ignore[misc]
        without = _least(lambda loss: loss.backward(), lambda model=model: _two_terms(model))  # type: ignore[misc]
        what = f"gradients, values and guesses of two terms, {layers} layers"
        yield what, "steps 1, 5, 10, ... then each 20th, 100th, 500th", max(0.0, with_looks - without)
    one = _chain(50)
    yield (
        "the same of a loss that is no sum",
        "the same",
        _least(
            lambda loss: TermGradients(loss.grad_fn, lambda function: function),
            lambda: functional.mse_loss(one(torch.randn(64, 64)), torch.randn(64, 64)),
        ),
    )
    gradients = [torch.randn(128, 128) for _ in range(16)]
    yield (
        "own gradients of 16 parameters of 128 x 128, before averaging",
        "the same, with several ranks",
        _least(lambda _: torch.stack([torch.linalg.vector_norm(g) for g in gradients]), lambda: None),
    )
    for layers in (2, 12):
        blocks = _blocks(layers)
        yield (
            f"logits and entropy of attention, {layers} layers of 4 heads, 64 places",
            "as an eighth of the budget allows",
            _least(
                lambda loss: numbers_of(attention_nodes(loss.grad_fn)),
                lambda blocks=blocks: blocks(torch.randn(4, 64, 128)).pow(2).mean(),  # type: ignore[misc]
            ),
        )
    loader = DataLoader(TensorDataset(torch.randn(256, 4)), batch_size=8, shuffle=True)

    def begun() -> Any:
        iterator = iter(loader)
        next(iterator)
        return iterator

    yield "the seed of a pass's order", "each pass over the data", _least(order_seed, begun)


def _many(work: Callable[[], object]) -> float:
    """Return the processor time of one call of `work`, the least of rounds of many, in microseconds."""

    def round_of(_: Any) -> None:
        for _ in range(CALLS):
            work()

    return _least(round_of, lambda: None) / CALLS


def _dropping(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    for _ in range(4):
        functional.dropout(x, 0.1, training=False)


def _dropout_in_evaluation() -> Iterator[Row]:
    fuse = Fuse(Guard(), "watching dropout")
    x = torch.randn(1, 4)
    model = _chain(2, 4).eval()
    watched = RandomEvaluation(counted=lambda: None, is_compiler_used=lambda: False, fuse=fuse)

    def switched() -> None:
        watched.switch(on=True)
        watched.switch(on=False)

    yield (
        "dropout in evaluation: its functions watched, and left again",
        "each of the first evaluations",
        _many(switched),
    )
    alone = _least(lambda _: _dropping(model, x), lambda: None)

    def begun() -> RandomEvaluation:
        each = RandomEvaluation(counted=lambda: None, is_compiler_used=lambda: False, fuse=fuse)
        each.switch(on=True)
        return each

    def call(each: RandomEvaluation) -> None:
        each.call_begins(model, (x,), {})
        _dropping(model, x)
        each.call_ends()

    def one_call() -> float:
        each = begun()
        began = time.thread_time()
        call(each)
        took = time.thread_time() - began
        each.stand_down()
        return 1e6 * took

    seen = min(one_call() for _ in range(ROUNDS))
    what = f"the same: a call of a model with four such functions, beside {alone:.0f} of its own"
    yield what, "the first 12 calls in evaluations", max(0.0, seen - alone)


def _modes() -> Iterator[Row]:
    for count in (50, 1000):
        modules = [nn.ReLU() for _ in range(count)]
        yield f"modes of {count:,} submodules", "each look at the model", _many(partial(mode_flags, modules))


def _resume() -> Iterator[Row]:
    for count in (4, 148):
        parameters = [nn.Parameter(torch.randn(4, 4)) for _ in range(count)]
        optimizer = torch.optim.Adam(parameters)
        for each in parameters:
            each.grad = torch.ones_like(each)
        optimizer.step()
        states = LostStates(Watch())

        def look(optimizer: Any = optimizer, states: LostStates = states) -> None:
            states.before_step(optimizer)
            states.after_step(optimizer)

        yield f"whether the state of an optimizer was lost, {count} parameters", "each look at the model", _many(look)
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        position = Position(1000, {"TRAIN": 1000})
        write_state(store, "worker_0", state_at(position, training_run=1, last_saved_step=None))
        took = _least(lambda _: read_state(store, "worker_0"), lambda: None)
    yield "where the process before stopped, from a disk", "once, on the writer's thread", took


def _autocast() -> Iterator[Row]:
    layer = nn.Linear(4, 4)
    layers = AutocastLayers(Watch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(torch.randn(2, 4))
    when = "each call of a layer, on steps that watch calls"
    yield "the precision of a layer's output", when, _many(lambda: layers.returned(layer, output))


def fact_rows() -> Iterator[Row]:
    """Return (fact, when, microseconds) of facts about the program."""
    for rows in (_dropout_in_evaluation, _modes, _resume, _autocast):
        yield from rows()


def _table(head: str, rows: Iterator[Row]) -> str:
    load = os.getloadavg()[0]
    cells = [f"| {what} | {when} | {_number(cost)} |" for what, when, cost in rows]
    now = time.strftime("%-d %B %Y, %H:%M", time.gmtime())
    loads = f"load {load:.1f} to {os.getloadavg()[0]:.1f}"
    measured = f"{now} UTC, {loads}, torch {torch.__version__}; the least of {ROUNDS}."
    table = [f"| {head} | when | microseconds |", "|---|---|---|", *cells]
    return "\n".join([measured, "", *table])


def _number(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 10 else f"{cost:.1f}"


def main() -> None:
    """Print the tables, or write them between their markers."""
    options = parser(__doc__)
    options.add_argument("--write", type=Path, help="the page to write to")
    options.add_argument("--only", choices=(LOOKS, FACTS), help="one of the tables")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    for name, head, rows in ((FACTS, "fact", fact_rows), (LOOKS, "look", look_rows)):
        if arguments.only not in (None, name):
            continue
        put(_table(head, rows()), arguments.write, begin=f"<!-- {name} -->", end=f"<!-- /{name} -->")


if __name__ == "__main__":
    main()
