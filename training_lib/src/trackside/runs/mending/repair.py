"""The repair of a problem: the line to look at, the observed and the expected value, and the smallest change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from trackside.contracts.cause import Cause
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.repair import Place, PlaceKind, Repair
from trackside.runs.mending.batch_change import batch_change
from trackside.runs.mending.blamed_call import MOST_TEXT, blamed_call
from trackside.runs.mending.edits import edits_of, holds_layers_in_a_list, with_setting, without_line
from trackside.runs.mending.proposed_rate import USUAL_FIRST_UPDATE, proposed_rate
from trackside.runs.source_text import SourceText
from trackside.runs.what_to_do import steps_to_try

# The setting of an optimizer that a cause is about, and the factor for the value to try first.
_SETTINGS: Mapping[Cause, tuple[str, float]] = {
    Cause.LEARNING_RATE_TOO_HIGH: ("lr", 0.1),
    Cause.LEARNING_RATE_TOO_LOW: ("lr", 10.0),
    Cause.WEIGHT_DECAY_TOO_STRONG: ("weight_decay", 0.1),
}
_RATES = frozenset({Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW})
# Causes in the batches that the model gets.
_OF_BATCHES = frozenset(
    {
        *(Cause.CONSTANT_INPUTS, Cause.UNNORMALIZED_INPUTS, Cause.NON_FINITE_DATA, Cause.WRONG_LABELS),
        *(Cause.REPEATED_DATA, Cause.DATA_LEAKAGE),
    }
)


def repair_of(group: IssueGroup, sources: SourceText) -> Repair:
    """Return the repair of a problem. Never raises for a file that is gone.

    Args:
        group: The problem.
        sources: Files of the training.
    """
    lead, causes = group.lead.lead, group.suspicions
    steps = steps_to_try(group.lead, causes)
    cause = causes[0].cause if causes else None
    found = Repair(change=steps[0] if steps else "")
    if lead is not None:
        found = replace(
            found,
            subject=lead.subject,
            measure=lead.measure,
            observed=lead.observed,
            relation=lead.relation,
            expected=lead.threshold,
        )
    if cause in _OF_BATCHES and (changed := _with_change_of_batch(found, sources)) is not None:
        return changed
    found = replace(found, place=_place(group, sources, cause))
    return _with_edits(_with_setting(found, cause, sources), cause, sources)


def _with_change_of_batch(found: Repair, sources: SourceText) -> Repair | None:
    """Return the repair with the one line of the loop that changes a batch; None without one such line."""
    name = PurePath(sources.script).name
    text = sources.text(name)
    line = batch_change(text)
    if line is None:
        return None
    place = Place(name, line, text.splitlines()[line - 1].strip()[:MOST_TEXT], PlaceKind.SEARCHED)
    change = f"{found.change} Line {line} alone changes the batch before the model gets it: try without it."
    return replace(found, place=place, change=change.strip(), edits=without_line(text, line))


def _with_setting(found: Repair, cause: Cause | None, sources: SourceText) -> Repair:
    """Return the repair with the setting of the optimizer to change, if the cause is about one with one value."""
    facts = sources.facts
    if cause is None or cause not in _SETTINGS or facts is None:
        return found
    name, factor = _SETTINGS[cause]
    values = {group[name] for optimizer in facts.optimizers for group in optimizer.groups if group.get(name)}
    if len(values) != 1:
        return found
    (value,) = values
    measured = proposed_rate(sources.run, value, is_too_high=factor < 1) if cause in _RATES else None
    proposed = float(f"{value * factor if measured is None else measured:.2g}")
    change = f"Set {name} to {proposed:g}; it is {value:g}."
    if measured is not None:
        change = f"{change} First steps then move weights by some {USUAL_FIRST_UPDATE:.0%} of their size."
    return replace(found, setting=name, value=value, proposed=proposed, change=change)


def _with_edits(found: Repair, cause: Cause | None, sources: SourceText) -> Repair:
    """Return the repair with the change as lines of the file, where cause and line settle it."""
    place = found.place
    if cause is None or place is None or not place.text:
        return found
    text = sources.text(place.file)
    if found.proposed is not None:
        return replace(found, edits=with_setting(text, place.line, found.setting, found.proposed))
    return replace(found, edits=edits_of(text, place.line, cause))


def _place(group: IssueGroup, sources: SourceText, cause: Cause | None) -> Place | None:
    """Return the line of the one call that the likeliest cause is about, else the line that the finding recorded.

    A finding about the loss names the line that computes it; a rate is mended where the optimizer is made. A recorded
    line with such a call itself stays, and so does one that hides layers from the optimizer.
    """
    recorded = group.lead.lead.place if group.lead.lead is not None else ""
    text = sources.line(recorded).text if recorded else ""
    if cause is not None and not holds_layers_in_a_list(text):
        called = blamed_call(sources.script, cause, sources.facts, recorded=text)
        if called is not None and sources.text(called.file):  # else the script is another one by now
            return called
    file, _, number = recorded.rpartition(":")
    return Place(file, int(number), text) if file and number.isdigit() else None
