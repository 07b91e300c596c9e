"""steps-draw-anew: each step has random numbers of its own."""

from __future__ import annotations

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, Probe
from trackside.rehearsal.subject import Subject

_FEWEST_STEPS = 3


class NewDraws(Probe):
    """Compare the random state at the beginning of each step with that of the step before."""

    name = "steps-draw-anew"
    place = 35
    what = "Each step draws the same random numbers: the same samples, the same dropout."
    cures = ("Set the seed once, before the training: no manual_seed within a step, a batch or an item of a dataset.",)

    def answer(self, subject: Subject) -> Answer:
        """Return a fault if each step begins in the random state in which the one before began."""
        draws = subject.draws
        if not draws.drawing:
            raise DoesNotApplyError("the model draws no random numbers")
        if draws.repeated >= max(_FEWEST_STEPS, draws.steps - 1):
            return self.fault(f"the random state is set back before each of {draws.repeated} steps")
        return self.ok(f"{draws.drawing} of {draws.steps} steps draw random numbers, and go on with new ones")
