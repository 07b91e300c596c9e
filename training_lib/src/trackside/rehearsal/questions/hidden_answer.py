"""next-token-is-hidden: outputs that foretell the next token do not depend on it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.step_program import StepProgram
from trackside.rehearsal.subject import Outputs, Subject, gap

_FEWEST_TOKENS = 3  # of a sequence: the next one, one before it, and one more that an accident does not explain
_NOTHING = 1e-4  # of the largest output: a reduced precision changes the last digits


class HiddenAnswer(Probe):
    """Replace the last token of each sequence where the labels are the inputs, moved by one place."""

    name = "next-token-is-hidden"
    place = 40
    what = "The model sees the tokens that it is to foretell: outputs change with tokens that come later."
    needs_numbers = True
    cures = (
        "Give attention a causal mask, and look at its direction.",
        "Look for recurrent layers and convolutions that look ahead.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault where an output before the last place changes."""
        tokens = next(_foretold(subject.program), None)
        if tokens is None:
            raise DoesNotApplyError("no labels are the next tokens of the inputs")
        changed = tokens.clone()
        changed[:, -1] = tokens[:, -1].roll(1)
        if torch.equal(changed, tokens):
            raise NotTriedError("all sequences end with the same token")
        before, after = subject.evaluated(), subject.evaluated(inputs={id(tokens): changed})
        earlier = _earlier(before, tokens), _earlier(after, tokens)
        if not earlier[0]:
            raise NotTriedError("no output has a place for each token")
        change = max(gap(one, other) for one, other in zip(*earlier, strict=True))
        if change > _NOTHING:
            return self.fault(f"with another last token earlier outputs change by {change:.2g} of the largest")
        return self.ok("with another last token no earlier output changes")


def _foretold(program: StepProgram) -> Iterator[torch.Tensor]:
    """Yield the inputs, of shape (samples, tokens), that are the labels of the loss moved by one place."""
    labels = [each for call in program.calls if not call.is_model for each in call.constants()]
    for tokens in program.inputs():
        is_sequence = tokens.ndim == 2 and not tokens.is_floating_point() and tokens.shape[1] >= _FEWEST_TOKENS
        if is_sequence and len(tokens) > 1 and any(_are_next(each, tokens) for each in labels):
            yield tokens


def _are_next(labels: torch.Tensor, tokens: torch.Tensor) -> bool:
    if labels.is_floating_point() or labels.numel() != tokens.numel():
        return False
    return torch.equal(labels.reshape(tokens.shape)[:, :-1].to(tokens), tokens[:, 1:])


def _earlier(outputs: Outputs, tokens: torch.Tensor) -> list[torch.Tensor]:
    held = [each for each in outputs.values() if each.ndim > 1 and each.shape[:2] == tokens.shape]
    return [each[:, :-1] for each in held]
