"""strong-dropout: a dropout drops nearly all of what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts
from trackside.contracts.observations import DROPOUTS
from trackside.contracts.verdict import Finding
from trackside.rules.details import Details
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.rules.rule import parameter
from trackside.situation.constants import A_HAIR, SEVERAL
from trackside.trial.window import Window


@dataclass(frozen=True)
class Dropouts(Details):
    """Details of a finding.

    dropouts  number of dropouts beyond the limit
    """

    dropouts: int = 0


@dataclass(frozen=True)
class StrongDropout(LossRule):
    """A dropout drops nearly all of what it is given.

    Why it matters:
        PyTorch's `p` is the share of values that is dropped. Other frameworks, and many papers, give the share that is
        kept: 0.9 taken over from there leaves one value of ten. The model still learns a little, its validation looks
        better than its training, and nothing else is odd.

    How it decides:
        At the first backward pass of each loss the hook looks into the graph, at up to 300 of its last operations, for
        dropouts before the last layer: of modules, of functions and of attention.

        1. It fires where one of them drops more than `share` of the values,
        2. or where two or more each drop at least `share_of_several`.

        One dropout of 0.8 or 0.9 before the last layer of a pretrained network is everyday practice (video), and
        silent. So are dropouts that come on later in the run, masks that hide a part of the input and leave the rest as
        it is, dropouts far from the loss, and compiled models, whose graph is one node.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.contracts.observations import DROPOUTS
        from trackside.rules.program.strong_dropout import StrongDropout

        loss = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", observed={DROPOUTS: (0.95, 0.1)})
        assert StrongDropout().limit_of(loss) == 0.9
        assert StrongDropout().limit_of(LossFacts("CrossEntropyLoss_output_0", observed={DROPOUTS: (0.5, 0.5)})) is None
        ```

    References:
        - PyTorch, `torch.nn.Dropout`: `p` is the probability of an element to be zeroed.
        - Srivastava et al.: Dropout (JMLR 2014): there p is the probability with which a unit is kept.
    """

    rule_id = "strong-dropout"
    code = "TS225"
    only_of = ("pytorch",)
    watches = ("losses",)
    since = "0.1"
    likely_causes = (Cause.DROPOUT_TOO_STRONG,)
    shows_its_cause = True
    what_to_do = ("Give the share to drop, not the share to keep: 0.1 to 0.5 are usual.",)

    share: float = parameter(0.9, "share of values that one dropout drops, above which it fires", minimum=0, maximum=1)
    share_of_several: float = parameter(
        0.75, "share of values that each of two dropouts or more drops, from which on it fires", minimum=0, maximum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss with too strong dropouts before it."""
        facts = window.facts
        if facts is None:
            return []
        return [
            finding_of(
                window,
                loss.name,
                "share of values that a dropout drops",
                DROPOUTS.of(loss)[0],
                above=min(limit, DROPOUTS.of(loss)[0] * (1 - A_HAIR)),
                since=min(facts.from_step, window.step),
                statistics=Dropouts(sum(share > limit for share in DROPOUTS.of(loss))).numbers(),
                place=loss.line,
            )
            for loss in facts.losses
            if (limit := self.limit_of(loss)) is not None
        ]

    def limit_of(self, loss: LossFacts) -> float | None:
        """Return the limit that the dropouts before a loss are beyond; None if they are not."""
        shares = DROPOUTS.of(loss)
        if shares and shares[0] > self.share:
            return self.share
        is_several = sum(share >= self.share_of_several for share in shares) >= SEVERAL
        return self.share_of_several if is_several else None

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the message: how much is dropped."""
        lead = findings[0]
        others = Dropouts.of(lead).dropouts - 1
        more = f" and {others} more dropout{'s' if others > 1 else ''} nearly as much" if others > 0 else ""
        return f"A dropout before {lead.subject} drops {100 * lead.observed:.3g} % of the values{more}."
