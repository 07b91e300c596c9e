"""Which collections are due on which step, decided once a step."""

from __future__ import annotations

from dataclasses import dataclass

from trackside.contracts.capture_request import CaptureRequest, Schedule


@dataclass(frozen=True)
class Due:
    """What one step is asked to save."""

    collections: frozenset[str] = frozenset()
    losses: bool = False  # a loss may belong to one of the collections
    parameters: bool = False  # a weight, bias or gradient may


NOTHING = Due()


def due_at(request: CaptureRequest, step: int) -> Due:
    """What `step` must save; `NOTHING` on an idle step."""
    due = [c for c in request.collections if c.schedule.is_due(step)]
    if not due:
        return NOTHING
    return Due(
        collections=frozenset(c.name for c in due),
        losses=any(c.name == "losses" or c.include_regex for c in due),
        parameters=any(c.name != "losses" or c.include_regex for c in due),
    )


def next_due_step(request: CaptureRequest, start: int) -> int | None:
    """The first step from `start` on on which anything is due, or None if none ever is."""
    steps = [step for c in request.collections if (step := _next_of(c.schedule, start)) is not None]
    return min(steps, default=None)


def _next_of(schedule: Schedule, start: int) -> int | None:
    candidates = [step for step in schedule.save_steps if step >= start]
    interval = schedule.save_interval
    first = -(-max(start, schedule.start_step) // interval) * interval
    if schedule.end_step is None or first < schedule.end_step:
        candidates.append(first)
    return min(candidates, default=None)
