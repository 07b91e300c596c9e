"""The report's section on rescues: each return to an earlier moment, what it left out, and what became of it."""

from __future__ import annotations

from trackside.contracts.run.rescue import RescueRecord, RescueTry
from trackside.views.report.charts.markup import Markup, element, joined
from trackside.views.report.model.figures import table

_HEAD = ("Fault at step", "Back to step", "Cause", "Evidence", "Next steps", "Outcome")
_NOTE = (
    "Steps count on through a return, so a loss over steps shows both branches: the steps between the two numbers of a "
    "row were undone, and what follows them is the branch that went on. Without a checkpoint the data did not go back."
)


def rescue_section(record: RescueRecord) -> Markup:
    """Return the section."""
    sentence = element("p", f"{record.sentence()}.")
    if not record.tries:
        return sentence
    return joined(sentence, table(_HEAD, [_row(one) for one in record.tries]), element("p", _NOTE, class_="note"))


def _row(one: RescueTry) -> tuple[str, ...]:
    same = "the same rows" if one.checkpoint else "the same random states"
    batches = "other batches" if one.left_out else same
    aside = f"set aside: {', '.join(one.set_aside)}" if one.set_aside else ""
    after = "; ".join(text for text in (batches, one.softened, aside) if text)
    back_to = f"{one.back_to_step:,} {one.checkpoint}".strip()
    return f"{one.at_step:,}", back_to, one.cause, one.evidence, after, one.outcome.value
