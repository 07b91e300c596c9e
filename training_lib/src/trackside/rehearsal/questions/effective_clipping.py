"""clipping-takes-effect: gradients that are to be clipped are."""

from __future__ import annotations

from trackside.contracts.run.check import Answer
from trackside.rehearsal.gradient_changes import Clipping
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Subject

_NEARLY_ALL = 0.95  # of the elements


class EffectiveClipping(Probe):
    """Look at the parameters that the clipping functions were given before the newest step, and at their gradients."""

    name = "clipping-takes-effect"
    place = 85
    what = "The script clips gradients, and its call reaches none of the gradients that the optimizer uses."
    cures = (
        "Clip after the backward pass and before the step, the gradients of the parameters that the optimizer holds.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault for an optimizer that got gradients of which no clipping call had any."""
        found = [subject.changes[id(o)] for o, _ in subject.steps if id(o) in subject.changes]
        clippings = [clipping for changes in found for clipping in changes.clippings]
        if not clippings:
            raise DoesNotApplyError("no function of torch.nn.utils clips gradients before the newest step")
        without = next((changes.clippings[0] for changes in found if changes.is_without_effect), None)
        worn = next((changes for changes in found if changes.share_cut > _NEARLY_ALL), None)
        if without is None and worn is not None:
            clipping = worn.clippings[-1]
            return self.fault(
                f"{clipping.function} cuts {worn.share_cut:.0%} of all elements, to {clipping.limit:.3g}",
                where=clipping.place,
                what="Clipping leaves nothing of the gradients but their signs.",
                cures=("Raise the limit: it is far below the usual size of an element.", "Clip by norm."),
            )
        if without is None:
            return self.ok(f"{clippings[0].function} reaches gradients of the step")
        observed, cures = _reason(without)
        return self.fault(observed, where=without.place, cures=cures)


def _reason(clipping: Clipping) -> tuple[str, tuple[str, ...]]:
    if not clipping.parameters and clipping.iterator:
        return (
            f"{clipping.function} got no parameter: its argument, of type {clipping.iterator}, was used up before",
            ("Make a list of the parameters, list(...), before the optimizer and the clipping take them.",),
        )
    if not clipping.parameters:
        return f"{clipping.function} got no parameter", ()
    if clipping.is_early:
        return f"{clipping.function} was called before the backward pass", ()
    if not clipping.has_gradients:
        return f"{clipping.function} was called when no parameter had a gradient", ()
    return f"{clipping.function} got parameters that the optimizer does not hold", ()
