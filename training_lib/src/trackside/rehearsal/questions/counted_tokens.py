"""tokens-count-alike: over the backward passes of one step, each token has the same weight in the loss."""

from __future__ import annotations

import math

import torch

from trackside.contracts.run.check import Answer
from trackside.frameworks.pytorch.losses.token_weights import TokenWeights
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.subject import Subject

_TWICE = 2.0


class CountedTokens(Probe):
    """Replay the losses of a step, and compare the weights of a token in each."""

    name = "tokens-count-alike"
    place = 84
    what = "Tokens of one step count by the batch that they came in: each batch is divided by its own number."
    needs_numbers = True
    cures = (
        "Sum the losses of the tokens (reduction='sum'), and divide by their number over all batches of the step.",
        "In a Trainer, take num_items_in_batch in compute_loss, or give the loss as compute_loss_func.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where one weight is more than twice another."""
        if len(subject.steps) != 1 or len(subject.steps[0][1]) < 2:
            raise DoesNotApplyError("a step has one loss, or several optimizers")
        if subject.is_partial:
            raise NotTriedError("one of the step's losses cannot be replayed")
        weights = TokenWeights(lambda function: function)
        for program in subject.steps[0][1]:
            loss = subject.trained(program).loss
            weights.follow(loss.grad_fn)
            torch.autograd.backward(loss)
        found = weights.taken()
        if found is None:
            raise DoesNotApplyError("the losses of a step are not one cross entropy each")
        ratio = float(found.ratio)
        if not math.isfinite(ratio):
            raise NotTriedError("a batch of the step has no labels")
        observed = f"the largest weight of a label in a step is {ratio:.3g} times the smallest"
        return self.fault(observed) if ratio > _TWICE else self.ok(observed)
