"""The course of a rescue: what a look decides, and doing it, at once or by several ranks at a later step."""

from __future__ import annotations

from collections.abc import Callable

from trackside.contracts.run.rescue import RescueState
from trackside.rescue.agreement import MOMENT, PERIOD, Agreement, Message
from trackside.rescue.health import Fault, Health
from trackside.rescue.numbers import Numbers
from trackside.rescue.returns import Ending, Plan, Returns
from trackside.rescue.ring import DROP, GOOD, KEEP, Ring
from trackside.rescue.room import NoRoomError
from trackside.rescue.standing import StandingIssues

_KIND, _PLAN, _STATE, _REASON = "kind", "plan", "state", "reason"
_BACK, _CONFIRM, _END = "back", "confirm", "end"


class Course:
    """The course of one training's rescue.

    Attributes:
        agreement: Of several ranks; None for one process.

    Args:
        ring: The earlier moments.
        health: Judges the numbers.
        returns: Makes the returns.
        standing: The issues that rules have found.
        end: Called with the state and the reason once no more returns are made.
        went_back: Called after a return.
    """

    def __init__(
        self,
        ring: Ring,
        health: Health,
        returns: Returns,
        standing: StandingIssues,
        *,
        end: Callable[[RescueState, str], object],
        went_back: Callable[[], object],
    ) -> None:
        self._ring, self._health, self._returns, self._standing = ring, health, returns, standing
        self._end, self._went_back = end, went_back
        self.agreement: Agreement | None = None
        self._is_first = True  # the rank that keeps moments and confirms returns for all
        self._moment = self._waits_until = self._back_at = 0

    def join(self, agreement: Agreement, *, is_first: bool) -> None:
        """Do all together with other ranks from here on.

        Args:
            agreement: The messages of all ranks.
            is_first: True for the one rank that keeps moments and confirms returns for all.
        """
        self.agreement, self._is_first = agreement, is_first

    def step_ended(self, steps: int) -> None:
        """Do what all ranks have agreed on. Call it after each step, also one that a gradient scaler has left out.

        Args:
            steps: Number of training steps that have ended.
        """
        self._moment += 1
        if self.agreement is None or self._moment % PERIOD:
            return
        messages, are_all_ready = self.agreement.due(self._moment)
        messages = [each for each in messages if each[MOMENT] > self._back_at]
        if messages and not are_all_ready:
            self._end(RescueState.OFF, "one of the ranks could not do what the others could")
            return
        for message in sorted(messages, key=lambda each: each[_KIND] != _BACK):  # its moment may be the next to go
            if message[MOMENT] > self._back_at:
                self._obey(message, steps)

    def act(self, fault: Fault | None, numbers: Numbers, steps: int) -> None:
        """Act after a look.

        Args:
            fault: The fault that it shows, if any.
            numbers: Of the look.
            steps: Number of training steps that have ended.
        """
        if self.agreement is not None and self._moment < self._waits_until:
            return
        message = self._decision(fault, numbers, steps)
        if message is not None:
            self._share(message, steps)

    def can_do(self, message: Message) -> bool:
        """Return True if this rank can obey a message."""
        return message[_KIND] != _BACK or self._returns.place_of(_plan_of(message)) is not None

    def _share(self, message: Message, steps: int) -> None:
        if self.agreement is None:
            self._obey(message, steps)
        else:
            self.agreement.post(message, self._moment)
            self._waits_until = self._moment + 3 * PERIOD

    def _decision(self, fault: Fault | None, numbers: Numbers, steps: int) -> Message | None:
        returns = self._returns
        if returns.is_on_trial:
            return self._on_trial(fault, numbers, steps)
        if fault := fault or self._fault_by_rule():
            refusal = fault.refusal or self._standing.incurable_before(fault.since)
            return _message(Ending(RescueState.REFUSED, refusal) if refusal else returns.plan(fault))
        if self._health.is_suspected or not self._is_first:
            return None
        wish = self._ring.due(self._health.looks, steps, is_contradicted=self._standing.contradict)
        return {_KIND: wish} if wish else None

    def _on_trial(self, fault: Fault | None, numbers: Numbers, steps: int) -> Message | None:
        if fault is not None:
            return _message(self._returns.plan(fault))
        is_usual = self._returns.judge(numbers, steps) if self._is_first else None
        if is_usual is None:
            return None
        return {_KIND: _CONFIRM} if is_usual else _message(self._returns.again())

    def _fault_by_rule(self) -> Fault | None:
        """Return the fault of a rule's finding after the newest good moment, while the loss is unusual, too."""
        if not self._ring.good or not self._health.is_harmed():
            return None
        return self._standing.fault_since(self._ring.good[-1].steps)

    def _obey(self, message: Message, steps: int) -> None:
        kind = message[_KIND]
        if kind == _BACK:
            self._returns.go_back(_plan_of(message), steps, keeps_broken=self.agreement is None)
            self._back_at = self._moment
            self._went_back()
        elif kind == _CONFIRM:
            self._returns.confirm()
        elif kind == _END:
            self._returns.give_up()
            self._end(RescueState(message[_STATE]), message[_REASON])
        elif kind in (KEEP, GOOD, DROP):
            try:
                self._ring.do(kind, self._health.looks, steps)
            except NoRoomError as error:
                self._share(_message(Ending(RescueState.OFF, f"no moment can be kept: {error}")), steps)


def _message(answer: Plan | Ending) -> Message:
    if isinstance(answer, Plan):
        return {_KIND: _BACK, _PLAN: answer}
    return {_KIND: _END, _STATE: answer.state.value, _REASON: answer.reason}


def _plan_of(message: Message) -> Plan:
    fault, *rest = message[_PLAN]  # a list once it has passed the store
    return Plan(Fault(*fault), *rest)
