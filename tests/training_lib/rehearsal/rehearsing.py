"""A training of some steps under the recorder, and the answers of probes about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.guard import Guard
from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import Probe
from trackside.rehearsal.rehearsal import answer_all
from trackside.rehearsal.step_recorder import StepRecorder
from trackside.rehearsal.subject import Subject, named_state

torch.set_num_threads(1)
Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
ROWS, WIDTH, CLASSES, TOKENS, WORDS = 8, 6, 3, 7, 20


class RaisingGuard(Guard):
    """A guard that lets failures of the recorder through."""

    def switch_off(self, doing: str, error: Exception) -> None:
        raise error


def classify(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values), labels)


def table(steps: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return batches of numbers whose class follows from them."""
    generator = torch.Generator().manual_seed(1)
    values = [torch.randn(ROWS, WIDTH, generator=generator) for _ in range(steps)]
    return [(each, each[:, :CLASSES].argmax(1)) for each in values]


def sentences(steps: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return batches of tokens with a class each."""
    generator = torch.Generator().manual_seed(1)
    tokens = [torch.randint(0, WORDS, (ROWS, TOKENS), generator=generator) for _ in range(steps)]
    return [(each, each[:, 0] % CLASSES) for each in tokens]


@contextmanager
def recording() -> Iterator[StepRecorder]:
    recorder = StepRecorder(RaisingGuard())
    recorder.install()
    try:
        yield recorder
    finally:
        recorder.remove()


def rehearse(
    model: nn.Module,
    *,
    loss: Loss = classify,
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None,
    optimizer: Optimizer | None = None,
) -> Subject:
    """Train the model on the batches, and return the subject of the probes."""
    chosen = optimizer or torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    first: dict[str, torch.Tensor] = {}
    with recording() as recorder:
        for values, labels in batches or table():
            chosen.zero_grad()
            loss(model, values, labels).backward()  # type: ignore[no-untyped-call] # torch's own omission
            chosen.step()
            recorder.stepped(chosen)
            first = first or {name: tensor.detach().clone() for name, tensor in named_state([model]).items()}
    return Subject(
        recorder.programs,
        first_values=first,
        time_left=lambda: 60.0,
        changes=recorder.gradients.changes,
        labels=recorder.labels,
        draws=recorder.draws,
    )


def answer(subject: Subject, probe: Probe) -> Answer:
    (found,) = answer_all(subject, [probe])
    return found
