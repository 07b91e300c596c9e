"""untrained-tokens: added tokens have an embedding that nothing trains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import UNTRAINED_TOKENS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window


@dataclass(frozen=True)
class UntrainedTokens(PyTorchRule):
    """Added tokens have an embedding that nothing trains.

    Why it matters:
        `resize_token_embeddings` gives new tokens the mean of all embeddings, and an adapter freezes them. Without
        `modules_to_save` or `trainable_token_indices` the new tokens stay what they are, all alike, and neither the
        model reads them nor tells them from one another.

    How it decides:
        Of the batches of a causal language model it looks at the highest tokens, at the first 32 batches and rarely
        after. It fires after `fewest` looks in which

        1. the embeddings are frozen,
        2. and those of tokens in the batch are nearer to the mean of all than 15 % of the usual distance.

        Tokens whose rows are drawn at random, as older versions do, look as others do, and are not seen.

    Example:
        ```python
        from trackside.language.rules.untrained_tokens import UntrainedTokens

        assert UntrainedTokens().fewest == 3
        ```

    References:
        - PEFT, `LoraConfig.modules_to_save` and `trainable_token_indices`.
    """

    rule_id = "untrained-tokens"
    code = "TS509"
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.UNTRAINED_TOKENS,)
    shows_its_cause = True
    what_to_do = (
        'Give the adapter modules_to_save=["embed_tokens", "lm_head"], or trainable_token_indices of the new tokens.',
    )

    fewest: int = parameter(3, "looks with such tokens from which on it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding with the most such tokens of a batch."""
        columns = window.statistic(UNTRAINED_TOKENS, "mean", mode=None)
        if not columns or np.count_nonzero(columns[0].values) < self.fewest:
            return []
        most = float(columns[0].values.max())
        return [finding_of(window, UNTRAINED_TOKENS, "tokens with an untrained embedding", most, above=0.0, series=())]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how many tokens."""
        count = int(findings[0].observed)
        which = "A token" if count == 1 else f"{count} tokens"
        has = "has an embedding" if count == 1 else "have embeddings"
        return f"{which} of the batches {has} that nothing trains: the mean of all, as added tokens get it."
