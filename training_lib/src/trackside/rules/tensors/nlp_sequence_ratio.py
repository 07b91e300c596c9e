"""nlp-sequence-ratio: a token fills too much of the input sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, SavedValue, selected, values_at_step, words
from trackside.trial.window import Window

_DEFAULT_REGEX = ".*embedding0_input_0"
_ROLE = "model_inputs"


@dataclass(frozen=True)
class NlpSequenceRatio(Rule):
    """A token, such as padding, fills too much of the input sequences.

    Why it matters:
        Padding and unknown words teach nothing and are computed all the same. Batches that are half padding take twice
        the time they need; sequences full of unknown words mean a tokenizer that does not fit.

    How it decides:
        For each input of whole numbers (the inputs of the model, and tensors whose name a regex of `tensor_regex`
        finds; another regex than the usual one stands alone), at each step at which it was saved:

        1. p is the share of a token of `token_values` among all tokens of the tensor, in percent.
        2. It fires where p is more than the percentage at the same place of `token_thresholds_percent`. The last
           percentage holds for the tokens beyond it.

        It judges only where it was chosen: which number is padding depends on the tokenizer. Amazon's NLPSequenceRatio
        is the same; by default it looks for an input under MXNet's name, which other frameworks do not have.

    Example:
        ```python
        from trackside.rules.tensors.nlp_sequence_ratio import NlpSequenceRatio

        rule = NlpSequenceRatio(token_values="0, 100", token_thresholds_percent="50, 10")
        assert rule.limits == ((0.0, 50.0), (100.0, 10.0))
        ```

    References:
        - Amazon SageMaker Debugger, built-in rule NLPSequenceRatio.
    """

    rule_id = "nlp-sequence-ratio"
    code = "TS107"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest(_ROLE, Schedule(500)),)
    since = "0.1"
    likely_causes = (Cause.CONSTANT_INPUTS,)
    what_to_do = (
        "Bucket sequences by length, or pack them, so that batches hold less padding.",
        "If the token stands for unknown words, see that the tokenizer belongs to the model.",
    )

    tensor_regex: str = parameter(_DEFAULT_REGEX, "regexes of input sequences, separated by commas")
    token_values: str = parameter("0", "tokens, as numbers separated by commas")
    token_thresholds_percent: str = parameter("50", "share of each in percent above which it fires")

    def __post_init__(self) -> None:
        problems = [
            Problem(where=f"{self.rule_id}.{name}", what=f"must be numbers separated by commas, but is {text!r}.")
            for name, text in (
                ("token_values", self.token_values),
                ("token_thresholds_percent", self.token_thresholds_percent),
            )
            if not _are_numbers(text)
        ]
        if problems:
            raise ConfigurationError(problems, subject="The rule request")

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """(token, largest share in percent) of each token."""
        tokens = [float(word) for word in words(self.token_values)]
        shares = [float(word) for word in words(self.token_thresholds_percent)]
        return tuple([(token, shares[min(k, len(shares) - 1)]) for k, token in enumerate(tokens)])

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per input and token."""
        return [
            finding_of(window, saved.tensor, f"share of token {token:g} in %", share, above=limit, worker=saved.worker)
            for saved in self._sequences(window)
            for token, limit in self.limits
            if (share := 100 * float(np.mean(saved.value == token))) > limit
        ]

    def lacks(self, window: Window) -> str:
        """Name the missing input: sequences of tokens."""
        return "" if self._sequences(window) else "inputs of whole numbers (tokens)"

    def _sequences(self, window: Window) -> list[SavedValue]:
        role = _ROLE if self.tensor_regex == _DEFAULT_REGEX else ""
        names = selected(window, collection_names=role, tensor_regex=self.tensor_regex)
        return [s for s in values_at_step(window, names) if s.value.size and _are_tokens(s, is_named=not role)]


def _are_tokens(saved: SavedValue, *, is_named: bool) -> bool:
    """Return True for whole numbers, and for floating-point numbers if the user named the tensor."""
    return saved.value.dtype.kind in "iu" or (is_named and saved.value.dtype.kind == "f")


def _are_numbers(text: str) -> bool:
    try:
        return bool([float(word) for word in words(text)])
    except ValueError:
        return False
