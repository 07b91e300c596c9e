"""What a program of the corpus is: an ordinary training, a pure function of a seed and of the fault planted in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.detection.corpus.fault_classes import FAULT_CLASSES
from trackside.contracts.cause import Cause

TUNE, REPORT = "tune", "report"
SEEDS = {TUNE: range(100), REPORT: range(100, 200)}  # never mixed: a seed belongs to one split as a program does


@dataclass(frozen=True)
class Evaluation:
    """What a training knows of itself after an epoch, `step` optimizer steps from its start."""

    step: int
    train_loss: float
    valid_loss: float


@dataclass(frozen=True)
class Trained:
    """A training that has ended. `score` measures it on data it never saw: the higher the better."""

    score: Callable[[], float]
    history: tuple[Evaluation, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A mistake planted in one program.

    `kind` is the id of a `FaultClass`; `name` tells faults of one kind in one program apart. `begins` is the optimizer
    step from which the mistake acts; None for one that acts later than it is made, when the validation loss turns
    (overfitting). `layers` are the modules it touches, as `named_modules` calls them; empty for all of the model.
    `causes` name it rightly: those of its class, unless given.
    """

    kind: str
    what: str
    begins: int | None = 0
    layers: tuple[str, ...] = ()
    name: str = ""
    causes: tuple[Cause, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.kind)
        object.__setattr__(self, "causes", self.causes or FAULT_CLASSES[self.kind].causes)


@dataclass(frozen=True)
class Program:
    """A training program.

    `train(seed, fault)` trains with that fault planted, "" for none. `at_least` is the score that shows that it
    learned, `chance` the score of a model that knows nothing. `odd` says what is unusual about it though it is right.
    `module` is the file it stands in.
    """

    name: str
    train: Callable[[int, str], Trained]
    split: str
    data: str
    model: str
    summary: str
    at_least: float
    chance: float
    odd: str = ""
    faults: tuple[Fault, ...] = ()
    module: str = ""

    def fault(self, name: str) -> Fault:
        """The planted fault of that name. Errors: `KeyError`."""
        return {fault.name: fault for fault in self.faults}[name]
