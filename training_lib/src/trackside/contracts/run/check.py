"""The result of `trackside check`: the answers of the probes that a process of the rehearsal ran."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from trackside.contracts.stored_fields import (
    BOOLEAN,
    COUNT,
    FINITE,
    TEXT,
    TEXTS,
    StoredDocument,
    choice,
    records,
    stored,
)

VERSION = 1
ALL_PROBES = "probes"  # name of the answer in the place of those of all probes


class Outcome(str, Enum):
    """The outcome of a probe."""

    OK = "ok"
    FAULT = "fault"
    NOT_TRIED = "could not try"
    DOES_NOT_APPLY = "does not apply"


@dataclass(frozen=True)
class Answer:
    """The answer of one probe."""

    probe: str = field(metadata=stored(TEXT, "Name of the probe."))
    outcome: Outcome = field(metadata=stored(choice(Outcome), "Outcome."))
    observed: str = field(default="", metadata=stored(TEXT, "Observation, or the reason for not trying."))
    where: str = field(default="", metadata=stored(TEXT, "Module, parameter or function at fault."))
    what: str = field(default="", metadata=stored(TEXT, "The fault, in one sentence."))
    what_to_do: tuple[str, ...] = field(default=(), metadata=stored(TEXTS, "Steps that cure the fault."))
    seconds: float = field(default=0.0, metadata=stored(FINITE, "Time that the probe took."))

    def lasting(self, seconds: float) -> Answer:
        """Return the answer with its duration."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True)
class StepDigest:
    """Digests of one step of one process, for the comparison of ranks."""

    step: int = field(metadata=stored(COUNT, "Number of the optimizer step."))
    parameters: str = field(metadata=stored(TEXT, "Digest of the trained parameters after the step."))
    batch: str = field(default="", metadata=stored(TEXT, "Digest of the tensors that the model was called with."))


@dataclass(frozen=True)
class ProcessReport(StoredDocument):
    """The report of one process of the rehearsal."""

    document_name = "The report of a rehearsal"
    document_version = VERSION

    worker: str = field(metadata=stored(TEXT, "Worker."))
    steps: int = field(default=0, metadata=stored(COUNT, "Optimizer steps made."))
    world_size: int = field(default=1, metadata=stored(COUNT, "Number of ranks."))
    is_done: bool = field(default=False, metadata=stored(BOOLEAN, "True once all probes have answered."))
    is_sharded: bool = field(default=False, metadata=stored(BOOLEAN, "True if ranks hold parts of the parameters."))
    answers: tuple[Answer, ...] = field(default=(), metadata=stored(records(Answer), "Answers of the probes."))
    digests: tuple[StepDigest, ...] = field(default=(), metadata=stored(records(StepDigest), "Digests by step."))
    is_cut: bool = field(
        default=False, metadata=stored(BOOLEAN, "True if the script was ended before its end.", optional=True)
    )
    unused_gradients: int = field(
        default=0,
        metadata=stored(
            COUNT, "Times that an optimizer cleared new gradients, of a process without a step.", optional=True
        ),
    )
