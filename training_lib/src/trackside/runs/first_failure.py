"""The first failure of a run, in words that runs share that failed alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run.recorded_names import plain_name
from trackside.contracts.stored_fields import INTEGER, TEXT, stored
from trackside.contracts.verdict import Severity


@dataclass(frozen=True)
class FirstFailure:
    """The first standing issue of a run that is more than a remark.

    rule_id     its rule
    layer_kind  the tensor that it names, without numbers: `gradient/Net_block.*.weight`; "-" without a tensor
    cause       the cause of its problem; "" if it is not known
    since_step  the step since which it holds
    """

    rule_id: str = field(metadata=stored(TEXT))
    layer_kind: str = field(metadata=stored(TEXT))
    cause: str = field(metadata=stored(TEXT))
    since_step: int = field(metadata=stored(INTEGER))

    @property
    def kind(self) -> tuple[str, str, str]:
        """The words that runs share that failed alike."""
        return self.rule_id, self.layer_kind, self.cause


def first_failure(groups: Sequence[IssueGroup]) -> FirstFailure | None:
    """Return the first failure of a run; None without one. Of issues since the same step, critical ones come first."""
    standing = [(group, one) for group in groups for one in group.standing if one.severity is not Severity.INFO]
    if not standing:
        return None
    group, first = min(
        standing,
        key=lambda each: (
            each[1].since_step,
            each[1].severity is not Severity.CRITICAL,
            each[1].step,
            each[1].rule_id,
        ),
    )
    causes = group.suspicions
    subject = plain_name(first.lead.subject) if first.lead else "-"
    return FirstFailure(first.rule_id, layer_kind(subject), causes[0].cause.value if causes else "", first.since_step)


def layer_kind(subject: str) -> str:
    """Return the name of a tensor without its numbers, so that the layers of one kind share it."""
    return re.sub("[0-9]", "", subject).replace("..", ".*.")
