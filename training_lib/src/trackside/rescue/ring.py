"""The earlier moments that are kept: good ones, and one that the numbers after it have yet to judge."""

from __future__ import annotations

from collections.abc import Callable

from trackside.rescue.members import Members
from trackside.rescue.room import Room
from trackside.rescue.snapshot import Snapshot

FEWEST_LOOKS = 10  # between two moments
JUDGED_LOOKS, JUDGED_STEPS = 5, 20  # with usual numbers, after which a moment is good
SHARE = 0.01  # of the training's time, for copies
_FIRST_LOOKS = 2  # at all live objects: the second one shows what changes
_LOOK_SHARE = 0.002  # of its time, for further looks
_LOOK_SECONDS = 60.0  # between two of them, at least
_NEVER = -1e18
KEEP, GOOD, DROP = "keep", "good", "drop"


class Ring:
    """The moments of one training.

    Attributes:
        good: The good moments, oldest first.

    Args:
        copies: Number of moments that are kept, at least 2.
        room: For them.
        clock: Returns seconds.
        thread_clock: Returns the processor time of the calling thread.
    """

    def __init__(
        self, copies: int, room: Room, *, clock: Callable[[], float], thread_clock: Callable[[], float]
    ) -> None:
        self._copies, self._room, self._clock, self._thread_clock = copies, room, clock, thread_clock
        self._members = Members()
        self._free: list[Snapshot] = []
        self._pending: Snapshot | None = None
        self.good: list[Snapshot] = []
        self._looks = 0
        self._pending_at_look = self._taken_at_look = 0
        self._taken_at = self._looked_at = _NEVER
        self._cost = self._look_cost = 0.0  # seconds

    def due(self, looks: int, steps: int, *, is_contradicted: Callable[[int], bool]) -> str:
        """Return what is to be done now: `KEEP` the present moment, call the waiting one `GOOD`, `DROP` it; or "".

        Args:
            looks: Number of looks with usual numbers so far; the newest is one of them.
            steps: Number of training steps that have ended.
            is_contradicted: Returns True if a rule stands against the moment after so many steps.
        """
        pending = self._pending
        if pending is not None:
            is_judged = looks - self._pending_at_look >= JUDGED_LOOKS and steps - pending.steps >= JUDGED_STEPS
            return "" if not is_judged else DROP if is_contradicted(pending.steps) else GOOD
        is_time = self._clock() - self._taken_at >= self._cost / SHARE
        return KEEP if is_time and looks - self._taken_at_look >= FEWEST_LOOKS else ""

    def do(self, wish: str, looks: int, steps: int) -> None:
        """Do what is due. Without a waiting moment, `GOOD` and `DROP` do nothing.

        Args:
            wish: Of `due`.
            looks: Number of looks with usual numbers so far.
            steps: Number of training steps that have ended.

        Raises:
            NoRoomError: There is no memory for a moment.
        """
        if wish == KEEP:
            self.drop_waiting()
            self._take(looks, steps)
        elif wish == GOOD and self._pending is not None:
            self.good.append(self._pending)
            self._pending = None
        elif wish == DROP:
            self.drop_waiting()

    def drop_waiting(self) -> None:
        """Let the moment go that is not known to be good."""
        if self._pending is not None:
            self._free.append(self._pending)
            self._pending = None

    def spare(self) -> Snapshot:
        """Return a moment to keep the present one in, outside the ring."""
        self.drop_waiting()
        if not self._free and len(self.good) >= self._copies:
            return self.good.pop(0)
        return self._free.pop() if self._free else Snapshot(self._room)

    def give(self, snapshot: Snapshot) -> None:
        """Take memory back from `spare`."""
        self._free.append(snapshot)

    @property
    def members(self) -> Members:
        """The parts of the training, as of the newest look."""
        return self._members

    def _take(self, looks: int, steps: int) -> None:
        now, started = self._clock(), self._thread_clock()
        between = max(_LOOK_SECONDS, self._look_cost / _LOOK_SHARE)
        if self._looks < _FIRST_LOOKS or now - self._looked_at >= between:
            self._looks += 1
            if self._members.look() and self.good:  # the older moments lack what is new
                self._free += self.good
                self.good = []
            self._looked_at, self._look_cost = now, self._thread_clock() - started
        while len(self.good) >= self._copies:
            self._free.append(self.good.pop(0))
        snapshot = self._free.pop() if self._free else Snapshot(self._room)
        del self._free[self._copies :]
        copied_from = self._thread_clock()
        snapshot.take(self._members, steps)
        self._pending, self._pending_at_look, self._taken_at_look = snapshot, looks, looks
        self._taken_at, self._cost = self._clock(), self._thread_clock() - copied_from
