"""samples-are-independent: in evaluation no sample changes the output of another."""

from __future__ import annotations

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import NotTriedError, Probe
from trackside.rehearsal.rows import Batch, batch_of, batch_with_rows
from trackside.rehearsal.subject import Outputs, Subject

_SHARE = 1e-5  # of the change of the sample's own output; rows of right models differ by exactly 0 on a CPU
_NOTHING = 1e-6  # of the largest output: kernels that choose by the data


class SampleIndependence(Probe):
    """Replace one sample of the batch, and compare the outputs of the others."""

    name = "samples-are-independent"
    place = 20
    what = "In evaluation the output of a sample depends on the other samples of its batch."
    cures = (
        "Look for a softmax, mean or normalisation over axis 0, the axis of the samples.",
        "Look for a reshape that mixes axes; permute first, then reshape.",
        "Batch normalisation with track_running_stats=False uses the batch in evaluation, too.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where a replaced sample changes others' outputs, along each axis that may be the batch's."""
        inputs = subject.program.inputs()
        if any(each.ndim == 2 and each.shape[0] == each.shape[1] == inputs[0].shape[0] for each in inputs[1:]):
            raise NotTriedError("an input relates the samples with one another")
        before = subject.evaluated()
        batch = batch_with_rows(inputs, list(before.values()))
        found = self._influence(subject, batch, before)
        if found is None:
            raise NotTriedError("no output has a row for each sample")
        share, key = found
        if share <= _SHARE:
            return self.ok(f"a replaced sample of {batch.size} changes no output but its own")
        if batch.axis == 0 and self._is_independent_along_another_axis(subject, before):
            return self.ok("a replaced sample changes no output but its own; samples lie along axis 1")
        call = subject.program.calls[key[0]]
        return self.fault(
            f"a replaced sample changes other samples' outputs by {share:.2g} of the change of its own",
            where=self._first_place(subject, batch) or type(call.call).__name__,
        )

    def _influence(self, subject: Subject, batch: Batch, before: Outputs) -> tuple[float, tuple[int, int]] | None:
        row, other = batch.differing_row()
        after = subject.evaluated(inputs=batch.with_row(row, of=other))
        worst: tuple[float, tuple[int, int]] | None = None
        for key, value in before.items():
            axis = batch.axis_of(value)
            if axis is not None:
                share = _share(value, after[key], row, axis)
                if worst is None or share > worst[0]:
                    worst = (share, key)
        return worst

    def _is_independent_along_another_axis(self, subject: Subject, before: Outputs) -> bool:
        """Return True if axis 1 is the samples' (sequences before batch)."""
        try:
            batch = batch_of([each for each in subject.program.inputs() if each.ndim > 1], axis=1)
            found = self._influence(subject, batch, before)
        except NotTriedError:
            return False
        return found is not None and found[0] <= _SHARE

    def _first_place(self, subject: Subject, batch: Batch) -> str:
        """Return the name of the first module with independent inputs and dependent outputs."""
        row, other = batch.differing_row()
        names = {id(module): name for name, module in subject.named_modules()}
        one_run = _row_outputs(subject, {}, names)
        other_run = _row_outputs(subject, batch.with_row(row, of=other), names)
        for (name, one), (_, two) in zip(one_run, other_run, strict=False):
            axis = batch.axis_of(one)
            if one.shape == two.shape and axis is not None and _share(one, two, row, axis) > _SHARE:
                return name
        return ""


def _row_outputs(
    subject: Subject, inputs: dict[int, torch.Tensor], names: dict[int, str]
) -> list[tuple[str, torch.Tensor]]:
    """Return the name and output of each module, in the order of calls."""
    seen: list[tuple[str, torch.Tensor]] = []

    def keep(module: torch.nn.Module, _args: object, output: object) -> None:
        if isinstance(output, torch.Tensor) and output.is_floating_point() and id(module) in names:
            seen.append((names[id(module)], output.detach().clone()))

    handles = [module.register_forward_hook(keep) for _, module in subject.named_modules()]
    try:
        subject.evaluated(inputs=inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _share(before: torch.Tensor, after: torch.Tensor, row: int, axis: int) -> float:
    if before.shape != after.shape:
        return 0.0
    change = (before.double() - after.double()).abs().nan_to_num(0.0)
    others = torch.ones(change.shape[axis], dtype=torch.bool, device=change.device)
    others[row] = False
    own = float(change.select(axis, row).max())
    gap = float(change.movedim(axis, 0)[others].max())
    scale = float(before.double().abs().nan_to_num(0.0).max())
    if gap <= _NOTHING * max(scale, 1e-30):
        return 0.0
    return gap / max(own, gap)
