"""The repair of a problem: the line to look at, the observed and the expected value, and the smallest change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trackside.contracts.cause import Cause
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.repair import Place, Repair
from trackside.runs.blamed_call import blamed_call
from trackside.runs.source_text import SourceText
from trackside.runs.what_to_do import steps_to_try

# The setting of an optimizer that a cause is about, and the factor for the value to try first.
_SETTINGS: Mapping[Cause, tuple[str, float]] = {
    Cause.LEARNING_RATE_TOO_HIGH: ("lr", 0.1),
    Cause.LEARNING_RATE_TOO_LOW: ("lr", 10.0),
    Cause.WEIGHT_DECAY_TOO_STRONG: ("weight_decay", 0.1),
}


def repair_of(group: IssueGroup, sources: SourceText) -> Repair:
    """Return the repair of a problem. Never raises for a file that is gone.

    Args:
        group: The problem.
        sources: Files of the training.
    """
    lead, causes, facts = group.lead.lead, group.suspicions, sources.facts
    steps = steps_to_try(group.lead, causes)
    cause = causes[0].cause if causes else None
    found = Repair(place=_place(group, sources, facts, cause), change=steps[0] if steps else "")
    if lead is not None:
        found = replace(
            found,
            subject=lead.subject,
            measure=lead.measure,
            observed=lead.observed,
            relation=lead.relation,
            expected=lead.threshold,
        )
    return _with_setting(found, cause, facts)


def _with_setting(found: Repair, cause: Cause | None, facts: ModelFacts | None) -> Repair:
    """Return the repair with the setting of the optimizer to change, if the cause is about one with one value."""
    if cause is None or cause not in _SETTINGS or facts is None:
        return found
    name, factor = _SETTINGS[cause]
    values = {group[name] for optimizer in facts.optimizers for group in optimizer.groups if group.get(name)}
    if len(values) != 1:
        return found
    (value,) = values
    proposed = float(f"{value * factor:.3g}")
    return replace(
        found, setting=name, value=value, proposed=proposed, change=f"Set {name} to {proposed:g}; it is {value:g}."
    )


def _place(group: IssueGroup, sources: SourceText, facts: ModelFacts | None, cause: Cause | None) -> Place | None:
    """Return the line of the one call that the likeliest cause is about, else the line that the finding recorded.

    A finding about the loss names the line that computes it; a rate is mended where the optimizer is made. A recorded
    line with such a call itself stays.
    """
    recorded = group.lead.lead.place if group.lead.lead is not None else ""
    text = sources.line(recorded).text if recorded else ""
    called = blamed_call(sources.script, cause, facts, recorded=text) if cause is not None else None
    if (
        called is not None and sources.line(f"{called.file}:{called.line}").text
    ):  # else the script is another one by now
        return called
    file, _, number = recorded.rpartition(":")
    return Place(file, int(number), text) if file and number.isdigit() else None
