"""The line of a loop that changes a batch: one, or none is named."""

from __future__ import annotations

from tests.for_each import for_each
from trackside.runs.mending.batch_change import batch_change

LOOP = "for x, y in loader:\n    {}\n    loss = f(model(x), y)\n    loss.backward()\n"
ROWS = "while True:\n    x, y = data[rows], labels[rows]\n    {}\n    f(model(x), y).backward()\n"

CASES: dict[str, tuple[str, int | None]] = {
    "inputs are multiplied": (LOOP.format("x = x * 0"), 2),
    "in place": (LOOP.format("x *= 1000"), 2),
    "a part of them": (LOOP.format("x[:, 0] = y"), 2),
    "labels in another order": (LOOP.format("y = y[torch.randperm(len(y))]"), 2),
    "another batch": (LOOP.format("x, y = next(iter(other))"), 2),
    "what the loop itself took": (ROWS.format("y = y * 0"), 3),
    "in a function": ("def train():\n    for x in data:\n        x = x * 0\n        f(x).backward()\n", 3),
    "moved to a device": (LOOP.format("x, y = x.to(device), y.to(device)"), None),
    "another shape": (LOOP.format("x = x.view(-1, 8).float()"), None),
    "a new name": (LOOP.format("z = x * 0"), None),
    "two lines": (LOOP.format("x = x * 2\n    y = y * 2"), None),
    "a loss of several parts": ("for x in data:\n    loss = f(x)\n    loss = loss / 4\n    loss.backward()\n", None),
    "after the pass": ("for x in data:\n    f(x).backward()\n    x = x * 0\n", None),
    "a loop without a pass": ("for x in data:\n    x = x * 0\n", None),
    "a function that passes": ("for x in data:\n    x = x * 0\n    train(x)\n", None),
    "no Python": ("def (", None),
    "nothing": ("", None),
}


def test_the_one_line() -> None:
    @for_each(CASES)
    def check(text: str, line: int | None) -> None:
        assert batch_change(text) == line

    check()
