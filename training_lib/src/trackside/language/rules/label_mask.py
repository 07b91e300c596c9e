"""label-mask: labels are of the wrong tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.observations import GIVEN_TARGETS, PADDED_TARGETS
from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    ROWS_CUT,
    TARGET_PLACES,
    UNLABELLED_ROWS,
)
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import ALL_BUT_A_FEW, ALL_BUT_CHANCE, MOST, NEARLY_ALL
from trackside.trial.window import Window

_NONE = "tokens with a label, in %"
_PADDING = "padding with a label, in %"
_GIVEN = "looks at targets that the decoder reads at their own place"
_COUNTED = "targets that are of padding, in %"
_PLACES = {
    0: "batches whose targets are the tokens themselves, in %",
    2: "batches whose targets are two tokens ahead, in %",
}
_ENDS = "rows with a label on an end token, in %"
_BEGINS = "rows with two begin tokens, in %"
_ROWS = "rows without a label, in %"
_CUT = "rows cut off before the answer ends, in %"
_SENTENCES = {
    _NONE: "No token of the batches has a label: the loss is a mean over nothing.",
    _GIVEN: "The decoder reads its targets, each at its own place: nobody shifts them, and it learns to copy.",
    _COUNTED: "The loss counts the padding of rows: the model is trained to answer it, and its loss looks low.",
    _PADDING: "The padding has labels: the model is trained to write padding.",
    _PLACES[
        0
    ]: "The loss compares each output with the token that it was computed from: the model learns to repeat it.",
    _PLACES[2]: "The labels are shifted twice: the loss compares each output with the token after next.",
    _ENDS: "No row has a label on an end token: the model never learns to end.",
    _BEGINS: "The rows begin with two begin tokens, as where a template and the tokenizer add one each.",
    _ROWS: "Most rows have no label, as where a limit of length leaves nothing of the answer: they teach nothing.",
    _CUT: "Most rows are cut off before the answer ends: the model seldom learns to end.",
}


@dataclass(frozen=True)
class LabelMask(PyTorchRule):
    """Labels are of the wrong tokens.

    Why it matters:
        The loss of a supervised fine-tuning falls whatever its labels say. With labels on padding, with the end token
        masked (as where the padding token is the end token), or with labels that a collator has shifted already, the
        curve looks as always, and the model writes without an end, or the token after next.

    How it decides:
        It reads the batches of a causal language model of transformers as its DataLoader gives them (`input_ids`,
        `labels`, `attention_mask`), at the first 32 batches and rarely after, and fires where it is so in the median of
        `fewest` looks or more:

        1. no token has a label;
        2. more than half of the padding has a label;
        3. the targets of the loss are not the next tokens but those after next, as where collator and model both shift
           labels, or the tokens themselves, as where nobody does. They are read from the graph of the loss, so that a
           loop may shift labels by itself;
        4. in no look any row has a label on an end token, while rows are texts of their own: some tokens have no label,
           or rows are padded. Blocks cut from a stream of text need no end;
        5. nearly all rows begin with two begin tokens;
        6. more than half of the rows have no label;
        7. more than half of the rows are as long as the longest one and end without an end token, while prompts have no
           label: a limit of length (`max_length`) has cut off the answers.

        Of any other model, it fires where `nn.CrossEntropyLoss` is called with a target for each token, more than
        `counted` of these are of padding, all have the same target, and nothing ignores it. Padding is one token, at
        the ends of rows of unlike lengths and nowhere else. It also fires where the tokens that a model embeds last,
        after others, are the targets themselves: a decoder is to read the tokens before them.

        Labels on the whole text, prompts included, may be meant, and are silent.

    Example:
        ```python
        from trackside.language.rules.label_mask import LabelMask

        assert LabelMask().fewest == 5
        ```

    References:
        - transformers, `DataCollatorForLanguageModeling`: where padding and end are one token, both are masked.
    """

    rule_id = "label-mask"
    code = "TS508"
    watches = ("losses",)
    numbers = (LABELLED_TOKENS,)
    since = "0.1"
    likely_causes = (Cause.LABEL_MASK,)
    suspects = (
        Suspect(Cause.LABEL_MASK, "labels are shifted twice, by the data and by the model or its loss", (_PLACES[2],)),
        Suspect(Cause.LABEL_MASK, "labels are not shifted", (_PLACES[0],)),
        Suspect(Cause.LABEL_MASK),
    )
    shows_its_cause = True
    what_to_do = (
        "Print the tokens of one row beside its labels: padding -100, the answer and its end not.",
        "Let the loss ignore the label of padding: CrossEntropyLoss(ignore_index=...).",
        "Give the tokenizer a padding token that is not the end token.",
        "Shift labels once: a model of transformers that is given labels does it, a loss by hand does not.",
    )

    fewest: int = parameter(5, "looks at batches from which on it judges", minimum=1)
    counted: float = parameter(0.2, "share of the targets that may be of padding", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for each kind of wrong labels."""
        tokens, shifted = self._looks(window, LABELLED_TOKENS), self._at_wrong_place(window)
        if tokens is None:
            return [*self._of_padding(window), *_of_given(window), *shifted]
        share = float(np.median(tokens))
        if share == 0:
            return [finding_of(window, LABELLED_TOKENS, _NONE, 0.0, below=100 * (1 - ALL_BUT_CHANCE), series=())]
        found: list[Finding] = []
        padding, ends = self._looks(window, LABELLED_PADDING), self._looks(window, LABELLED_ENDS)
        found += self._shares(window, LABELLED_PADDING, _PADDING, MOST)
        found += shifted
        is_of_texts = share < ALL_BUT_A_FEW or padding is not None
        if ends is not None and ends.max() == 0 and is_of_texts and not found:
            found.append(finding_of(window, LABELLED_ENDS, _ENDS, 0.0, below=100 * (1 - ALL_BUT_CHANCE), series=()))
        found += self._shares(window, DOUBLE_BEGINS, _BEGINS, NEARLY_ALL)
        found += self._shares(window, UNLABELLED_ROWS, _ROWS, MOST)
        prompts = self._looks(window, LABELLED_PROMPTS)
        if not found and prompts is not None and np.median(prompts) < MOST:
            found += self._shares(window, ROWS_CUT, _CUT, MOST)
        return found

    def lacks(self, window: Window) -> str:
        """Return a clause without enough looks."""
        missing = all(self._looks(window, name) is None for name in (LABELLED_TOKENS, TARGET_PLACES))
        missing &= not _counted_padding(window) and not any(_of_given(window))
        return f"{self.fewest} batches with labels for a causal language model of transformers" if missing else ""

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: which tokens have labels."""
        return _SENTENCES[findings[0].measure]

    def _of_padding(self, window: Window) -> Iterator[Finding]:
        """Yield a finding if the loss counts padding."""
        share = _counted_padding(window)
        if share > self.counted:
            yield finding_of(
                window, LABELLED_PADDING, _COUNTED, 100 * share, above=100 * self.counted, since=0, series=()
            )

    def _at_wrong_place(self, window: Window) -> list[Finding]:
        """Return a finding if the targets of the loss are at another place than the next token."""
        places = self._looks(window, TARGET_PLACES)
        known = places[places >= 0] if places is not None else np.zeros(0)
        if len(known) < self.fewest:
            return []
        return [
            finding_of(window, TARGET_PLACES, measure, 100 * share, above=100 * NEARLY_ALL, series=())
            for place, measure in _PLACES.items()
            if (share := float(np.mean(known == place))) > NEARLY_ALL
        ]

    def _shares(self, window: Window, name: str, measure: str, limit: float) -> list[Finding]:
        """Return a finding if the median of a share is above a limit."""
        looks = self._looks(window, name)
        share = float(np.median(looks)) if looks is not None else 0.0
        return [finding_of(window, name, measure, 100 * share, above=100 * limit, series=())] if share > limit else []

    def _looks(self, window: Window, name: str) -> np.ndarray | None:
        columns = window.statistic(name, "mean", mode=None)
        values = columns[0].values if columns else np.zeros(0)
        return values if len(values) >= self.fewest else None


def _of_given(window: Window) -> Iterator[Finding]:
    count = GIVEN_TARGETS.of(window.facts.program) if window.facts is not None else 0
    if count:
        yield finding_of(window, TARGET_PLACES, _GIVEN, float(count), above=0.0, since=0, series=())


def _counted_padding(window: Window) -> float:
    return PADDED_TARGETS.of(window.facts.program) if window.facts is not None else 0.0
