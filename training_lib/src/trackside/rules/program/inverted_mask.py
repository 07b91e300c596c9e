"""inverted-mask: attention reads the padding, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import READS_PADDING
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window

MEASURE = "calls in which attention read one token alone, and its mask covered the others"


@dataclass(frozen=True)
class InvertedMask(ProgramRule):
    """Attention reads the padding, and nothing else: its mask is upside down.

    Why it matters:
        The `key_padding_mask` of PyTorch is True where a key is not to be read, the `attention_mask` of other libraries
        where it is. With the one in place of the other each token sees padding alone. Nothing is raised, and the model
        learns what single tokens tell.

    How it decides:
        At the first calls of the model with a mask of keys of `MultiheadAttention` or an encoder of torch.nn, the hook
        compares it with the tokens that the embeddings are given:

        1. A call counts where all places that the mask leaves hold one token, the same in all rows, and those that it
           covers hold three others or more, and not that one; and rows keep unlike numbers of places.
        2. It fires where `calls` calls or more count.

        Masks that cover padding on either side, or single tokens, are silent. Not seen are masks in attention by hand.

    Example:
        ```python
        from trackside.rules.program.inverted_mask import InvertedMask

        assert InvertedMask().calls == 2
        ```

    References:
        - PyTorch, `torch.nn.MultiheadAttention`: `key_padding_mask`.
    """

    rule_id = "inverted-mask"
    code = "TS230"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.INVERTED_MASK,)
    shows_its_cause = True
    what_to_do = (
        "Give the mask the other way round: key_padding_mask=(tokens == padding).",
        "Print one row of the mask beside its tokens: True stands at the padding.",
    )

    calls: int = parameter(2, "calls in which attention reads one token alone", minimum=1, maximum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per module with such a mask."""
        facts = window.facts
        return [
            finding_of(
                window,
                module.name,
                MEASURE,
                float(READS_PADDING.of(module)),
                above=float(self.calls - 1),
                since=facts.from_step,
                place=module.line,
            )
            for module in (facts.modules if facts is not None else ())
            if facts is not None and READS_PADDING.of(module) >= self.calls
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what reads the padding."""
        return f"The mask of {findings[0].subject} is upside down: attention reads the padding, and no other token."
