"""mixed-documents: documents packed into one row of tokens see one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import MIXED_DOCUMENTS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import ProgramRule
from trackside.rules.rule import parameter
from trackside.trial.window import Window


@dataclass(frozen=True)
class MixedDocuments(ProgramRule):
    """Documents packed into one row of tokens see one another.

    Why it matters:
        Short texts are packed into rows, and positions begin anew with each of them. Attention keeps them apart only by
        a mask, or by the positions themselves where no mask is given: with an `attention_mask` of ones, transformers
        lets each text see those before it in its row. The loss falls, as neighbours give hints, and the model is worse
        on a text alone.

    How it decides:
        1. A document begins where the `position_ids` of the model's call go back to 0 and rise again.
        2. n is the number of calls in which attention saw a token of another document of its row, read from the graph
           of what the model returned; it is counted to 3.
        3. It fires where n is at least `calls`.

        Rows whose positions go on are silent: text joined without a boundary may be meant. So is what the graph does
        not show: recomputed activations, and attention by a kernel outside of PyTorch.

    Example:
        ```python
        from trackside.language.rules.mixed_documents import MixedDocuments

        assert MixedDocuments().calls == 2
        ```

    References:
        - transformers, `DataCollatorWithFlattening`: rows of documents go without an attention mask.
    """

    rule_id = "mixed-documents"
    code = "TS510"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.MIXED_DOCUMENTS,)
    shows_its_cause = True
    what_to_do = (
        "Leave the attention mask out where position_ids begin anew: transformers then keeps documents apart.",
        "Or give a mask of four dimensions, in which a token sees those of its own document alone.",
    )

    calls: int = parameter(2, "calls of the model in which a document saw another", minimum=1, maximum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the model."""
        facts = window.facts
        if facts is None or MIXED_DOCUMENTS.of(facts.program) < self.calls:
            return []
        name = facts.modules[0].name if facts.modules else "model"
        mixed, least = float(MIXED_DOCUMENTS.of(facts.program)), float(self.calls - 1)
        return [
            finding_of(window, name, "calls with documents that see others", mixed, above=least, since=facts.from_step)
        ]

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: what sees what."""
        return "Documents packed into one row see one another: their positions begin anew, and attention goes on."
