"""order-matters: a model of token sequences with attention knows the order of the tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trackside.contracts.run.check import Answer
from trackside.rehearsal.probe import DoesNotApplyError, NotTriedError, Probe
from trackside.rehearsal.subject import Outputs, Subject, gap

_FEWEST_TOKENS = 5
_NOTHING = 1e-4  # of the largest output: attention adds in another order


class OrderDependence(Probe):
    """Evaluate the batch with the tokens of each sample in another order."""

    name = "order-matters"
    place = 40
    what = "The model mixes the tokens of a sequence and does not know their order."
    cures = (
        "Add positions to the embeddings (learned, sinusoidal or rotary) before the first attention layer.",
        "If order plays no part in the task (sets of items), this is no fault.",
    )

    def answer(self, subject: Subject) -> Answer:
        """Return a fault if tokens influence one another and outputs only follow their tokens."""
        tokens = _tokens(subject.program.inputs())
        together = [each for each in subject.program.inputs() if each.shape[:2] == tokens.shape and each.ndim >= 2]
        order = _moved(tokens)
        before = subject.evaluated()
        moved = {id(each): each[:, order] for each in together}
        if self._knows_order(before, subject.evaluated(inputs=moved), tokens, order):
            return self.ok("tokens in another order give other outputs")
        if self._is_ordered_within(subject, tokens, moved, order):
            return self.ok("tokens in another order give other values within the model, and hardly other outputs")
        if not self._mixes(subject, tokens):
            return self.ok("the tokens of a sequence do not influence one another: their order plays no part")
        return self.fault(f"{tokens.shape[1]} tokens in another order: the outputs only follow their tokens")

    def _knows_order(self, before: Outputs, after: Outputs, tokens: torch.Tensor, order: torch.Tensor) -> bool:
        compared = False
        for key, value in before.items():
            other = after[key]
            if value.shape != other.shape or not value.ndim or value.shape[0] != tokens.shape[0]:
                continue
            compared = True
            is_sequence = value.ndim >= 2 and value.shape[1] == tokens.shape[1]
            if gap(value[:, order] if is_sequence else value, other) > _NOTHING and gap(value, other) > _NOTHING:
                return True
        if not compared:
            raise NotTriedError("no output has a row for each sequence")
        return False

    def _is_ordered_within(
        self, subject: Subject, tokens: torch.Tensor, moved: Mapping[int, torch.Tensor], order: torch.Tensor
    ) -> bool:
        """Return True if any module's values for the tokens do not merely follow them.

        A model that is sure of its answer, or reads it from one token, hardly shows in its outputs what it knows.
        """
        pairs = zip(_outputs(subject, tokens, {}), _outputs(subject, tokens, moved), strict=False)
        return any(a.shape == b.shape and min(gap(a[:, order], b), gap(a, b)) > _NOTHING for a, b in pairs)

    def _mixes(self, subject: Subject, tokens: torch.Tensor) -> bool:
        """Return True if, in any module, one token changes the output at another token's place."""
        changed = tokens.clone()
        changed[:, 0] = tokens[:, 0].roll(1)
        if torch.equal(changed, tokens):
            changed[:, 0] = tokens[:, -1]
        one, two = _outputs(subject, tokens, {}), _outputs(subject, tokens, {id(tokens): changed})
        pairs = zip(one, two, strict=False)
        return any(a.shape == b.shape and gap(a[:, 1:], b[:, 1:]) > _NOTHING for a, b in pairs)


def _tokens(inputs: list[torch.Tensor]) -> torch.Tensor:
    for each in inputs:
        is_sequence = each.ndim == 2 and each.dtype in {torch.int64, torch.int32} and each.shape[1] >= _FEWEST_TOKENS
        if is_sequence and len(torch.unique(each)) > _FEWEST_TOKENS:
            return each
    raise DoesNotApplyError("no sequence of tokens is among the inputs")


def _moved(tokens: torch.Tensor) -> torch.Tensor:
    """Return an order in which tokens have moved, but for the first and the last, which models read out."""
    order = torch.arange(tokens.shape[1], device=tokens.device)
    middle = order[1:-1]
    return torch.cat([order[:1], middle.roll(len(middle) // 2).flip(0), order[-1:]])


def _outputs(subject: Subject, tokens: torch.Tensor, replaced: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
    """Return the outputs with a place for each token, of every module, in the order of calls."""
    found: list[torch.Tensor] = []

    def keep(_module: torch.nn.Module, _args: object, output: object) -> None:
        first = output[0] if isinstance(output, tuple) and output else output
        is_sequence = isinstance(first, torch.Tensor) and first.ndim == 3 and first.shape[:2] == tokens.shape
        if is_sequence and isinstance(first, torch.Tensor) and first.is_floating_point():
            found.append(first.detach().clone())

    handles = [module.register_forward_hook(keep) for _, module in subject.named_modules()]
    try:
        subject.evaluated(inputs=replaced)
    finally:
        for handle in handles:
            handle.remove()
    return found
