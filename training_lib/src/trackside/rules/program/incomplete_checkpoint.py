"""incomplete-checkpoint: checkpoints without parameters that train or with other values; loads without an effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import CHECKPOINTS, IDLE_LOAD, CheckpointFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.trial.window import Window

_MISSING, _ALTERED, _NOT_TAKEN, _OWN = (
    "trained parameters in no checkpoint",
    "parameters saved with other values",
    "tensors of a state that the model did not take",
    "parameters that were given back to the model as they were",
)


@dataclass(frozen=True)
class InFile(Details):
    """Details of a finding.

    trained    number of trained parameters of the models that are held
    is_export  True if nothing but the end of a model is missing
    """

    trained: int = 0
    is_export: bool = False


@dataclass(frozen=True)
class IncompleteCheckpoint(PyTorchRule):
    """The checkpoints lack parameters that train or hold other values, or a state was loaded without an effect.

    Why it matters:
        A checkpoint is what is left of a training. Where a filter, a wrapper or a library leaves parameters out, or
        changes some on the way, nothing is raised: the loss of the training is right, and the model that is loaded
        later is another one. Nor is anything raised where `load_state_dict(..., strict=False)` is given other names
        than the model has: it goes on with random weights.

    How it decides:
        The hook compares each object that the script saves with the trained models, by names, shapes and, on the CPU,
        the values of the first 16 million elements of the same type.

        1. A model is kept if the checkpoints so far hold at least half of its trained parameters. It fires where others
           of them are in no checkpoint of the run. Names of one tied parameter count as one, and files that were
           written between the same two steps as one checkpoint.
        2. It is a remark where the missing ones are the last of their model: many keep an encoder without its head.
           Else it is a warning.
        3. It fires where some parameters of a checkpoint, and fewer than half, have other values than the model at
           that moment. Where most differ, it holds averages or the model of another moment, and that is silent.
        4. It fires where the model took no tensor of a state that `load_state_dict` was given, and no later state
           either.
        5. It fires where `load_state_dict` was given the model's own parameters after steps of training. A
           `state_dict` holds no copies, so what was kept as the best state has changed with each step since.

        Corrections of low rank (LoRA) that are saved alone are complete, for nothing else trains.

    Example:
        ```python
        from trackside.contracts.observations import CheckpointFacts
        from trackside.rules.program.incomplete_checkpoint import is_export

        filtered = CheckpointFacts("last.pt", 12, missing=("Net_stem.weight",), missing_count=1)
        encoder = CheckpointFacts("encoder.pt", 12, missing=("Net_head.weight",), missing_count=1, ends_early=True)
        assert is_export(encoder) and not is_export(filtered)
        ```

    References:
        - TrainCheck (OSDI 2025): DeepSpeed 5489, parts frozen at the start are left out of a checkpoint.
    """

    rule_id = "incomplete-checkpoint"
    code = "TS218"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.INCOMPLETE_CHECKPOINT,)
    shows_its_cause = True
    what_to_do = (
        "Save model.state_dict() as it is; look for a filter by requires_grad or by name.",
        "Load the file into a new model, and compare its parameters with those of the training.",
        "Print what load_state_dict returns: the names that it did not find. Take a prefix such as `module.` off.",
        "Keep a state in memory as copy.deepcopy(model.state_dict()).",
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return findings: the load without an effect, the missing parameters, and the altered ones."""
        return [*self._of_load(window), *self._of_checkpoints(window)]

    def _of_load(self, window: Window) -> Iterator[Finding]:
        load = IDLE_LOAD.of(window.facts.program) if window.facts is not None else None
        if window.facts is not None and load is not None:
            yield finding_of(
                window,
                load.name,
                _OWN if load.is_own else _NOT_TAKEN,
                float(load.count),
                above=0.0,
                since=min(window.facts.from_step, window.step),
                place=load.line,
                grade=Severity.WARNING,
            )

    def _of_checkpoints(self, window: Window) -> list[Finding]:
        facts = window.facts
        if facts is None or (found := CHECKPOINTS.of(facts.program)) is None:
            return []
        details = InFile(found.parameter_count, is_export(found))
        cases = (
            (_ALTERED, found.altered, found.altered_count, Severity.WARNING),
            (_MISSING, found.missing, found.missing_count, Severity.INFO if details.is_export else Severity.WARNING),
        )
        return [
            finding_of(
                window,
                names[0],
                measure,
                float(count),
                above=0.0,
                since=min(facts.from_step, window.step),
                statistics=details.numbers(),
                place=found.path,
                grade=grade,
            )
            for measure, names, count, grade in cases
            if names
        ]

    def lacks(self, window: Window) -> str:
        """Return a clause without facts about the program, or before the first checkpoint."""
        if window.facts is None:
            return "facts about the program, which Trackside's hook records"
        program = window.facts.program
        is_known = CHECKPOINTS.of(program) is not None or IDLE_LOAD.of(program) is not None
        return "" if is_known else "a checkpoint with weights of the model"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: the number of parameters, the first one, and the file."""
        lead = findings[0]
        count, at = int(lead.observed), f" at {lead.place}" if lead.place else ""
        if lead.measure == _NOT_TAKEN:
            return f"The model took none of {count} tensors of a state that load_state_dict was given{at}."
        if lead.measure == _OWN:
            return f"load_state_dict{at} was given the model's own parameters, not a copy of them: it changed nothing."
        of, more = InFile.of(lead).trained, f" and {count - 1} more" if count > 1 else ""
        if lead.measure == _MISSING:
            return f"{lead.subject}{more}, of {of} trained parameters, are in no checkpoint; the first is {lead.place}."
        return f"{lead.place} holds other values of {lead.subject}{more} than the model had; the rest agree."


def is_export(found: CheckpointFacts) -> bool:
    """Return True if nothing but the end of a model is missing, as where an encoder is kept without its head.

    Args:
        found: The content of the checkpoints.
    """
    return found.ends_early and not found.altered
