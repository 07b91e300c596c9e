"""What one look into the graph of a loss costs the training thread, part by part.

    python -m benchmarks.looks_cost [--write docs/capture-overhead.md]

Processor time of the training thread, the least of `ROUNDS` looks, on graphs made anew for each. Hooks that fire in the
backward pass count as the difference of two passes, with them and without.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from trackside.frameworks.pytorch.data.order_seed import order_seed
from trackside.frameworks.pytorch.losses.attention import attention_nodes, numbers_of
from trackside.frameworks.pytorch.losses.terms import TermGradients

ROUNDS = 25
BEGIN, END = "<!-- looks -->", "<!-- /looks -->"


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


def _rows() -> Iterator[tuple[str, str, float]]:
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


def main() -> None:
    """Print the table, or write it between its markers."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path, help="the page to write to")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows = [f"| {what} | {when} | {cost:,.0f} |" for what, when, cost in _rows()]
    now = time.strftime("%-d %B %Y, %H:%M", time.gmtime())
    loads = f"load {load:.1f} to {os.getloadavg()[0]:.1f}"
    head = f"{now} UTC, {loads}, torch {torch.__version__}; the least of {ROUNDS}."
    lines = [BEGIN, "", head, "", "| look | when | microseconds |", "|---|---|---|", *rows, "", END]
    print("\n".join(lines))
    if arguments.write is not None:
        page = arguments.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        arguments.write.write_text(before + "\n".join(lines) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
