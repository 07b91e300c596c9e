"""Numbers of steps: which of them are a fault, which may be cured by going back, and which are neither."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from trackside.rescue.health import NOT_FINITE, RATE_JUMP, SPIKE, Fault, Health
from trackside.rescue.numbers import Numbers

HEALTHY = 100
NAN, INF = math.nan, math.inf


def usual(step: int) -> Numbers:
    wave = 1 + 0.2 * math.sin(step)
    return Numbers(step + 1, wave * (0.5 + 2 / (1 + 0.1 * step)), wave, 10 + 0.001 * step, 0.01 * wave, 0.1)


def fault_of(after: Callable[[int], Numbers], *, healthy: int = HEALTHY, looks: int = 60) -> Fault | None:
    health = Health()
    for step in range(healthy):
        assert health.observe(usual(step)) is None
    found = (health.observe(after(step)) for step in range(healthy, healthy + looks))
    return next((fault for fault in found if fault is not None), None)


def from_moment(first: dict[str, float], later: dict[str, float] | None = None) -> Callable[[int], Numbers]:
    return lambda step: usual(step)._replace(**(first if step == HEALTHY else later or {}))


_FAULTS = {
    "broken batch": (from_moment({"weights": NAN, "loss": NAN, "gradient": NAN}), NOT_FINITE, True),
    "overflow of gradients": (from_moment({"weights": INF, "gradient": INF}), NOT_FINITE, True),
    "torn weights": (from_moment({"weights": NAN}), "weights that one step tore", False),
    "spike that stays": (from_moment({"gradient": 90.0}, {"loss": 9.0}), SPIKE, True),
    "gradient far beyond all before": (from_moment({"gradient": 5000.0}), SPIKE, True),
    "update that stays": (from_moment({"change": 4.0}, {"loss": 9.0}), SPIKE, True),
    "rate that jumped": (from_moment({"rate": 1.0}, {"rate": 1.0, "loss": 9.0}), RATE_JUMP, False),
    "spike to NaN": (from_moment({"gradient": 90.0}, {"loss": NAN}), SPIKE, True),
}
_SILENT = {
    "sound": from_moment({}),
    "spike that heals": from_moment({"gradient": 90.0, "loss": 30.0}),
    "loss alone": from_moment({"loss": 9.0}, {"loss": 9.0}),
    "NaN loss that reached no weight": from_moment({"loss": NAN}),
    "rate that was there before": from_moment({"rate": 0.1}, {"rate": 0.1}),
    "rate that jumped and does no harm": from_moment({"rate": 1.0}, {"rate": 1.0}),
    "large gradient, usual losses": from_moment({"gradient": 90.0}),
    "infinite gradient that the optimizer skipped": from_moment({"gradient": INF}),
    "no loss known": lambda step: usual(step)._replace(loss=None),
}


@pytest.mark.parametrize(("after", "cause", "is_of_batch"), _FAULTS.values(), ids=_FAULTS)
def test_a_transient_fault_is_named(after: Callable[[int], Numbers], cause: str, is_of_batch: bool) -> None:
    fault = fault_of(after)
    assert fault is not None
    assert (fault.cause, fault.is_of_batch, fault.refusal) == (cause, is_of_batch, "")
    assert fault.since == HEALTHY
    assert fault.evidence


@pytest.mark.parametrize("after", _SILENT.values(), ids=_SILENT)
def test_usual_numbers_are_no_fault(after: Callable[[int], Numbers]) -> None:
    assert fault_of(after) is None


def _grows(factor: float) -> Callable[[int], Numbers]:
    def at(step: int) -> Numbers:
        size = factor ** (step - HEALTHY)
        if size > 1e30:
            return usual(step)._replace(weights=NAN, loss=NAN, gradient=NAN)
        return usual(step)._replace(loss=2 * size, weights=10 * size, gradient=size, change=size / 100)

    return at


@pytest.mark.parametrize("interval", [1, 26])
def test_looks_may_become_rare(interval: int) -> None:
    health = Health()
    for step in range(HEALTHY):
        assert health.observe(usual(step)) is None
    steps = range(HEALTHY, HEALTHY + 40 * interval, interval)
    for step in steps:
        assert health.observe(usual(step)._replace(change=0.012 * interval)) is None
    fault = health.observe(usual(steps[-1] + interval)._replace(weights=NAN, loss=NAN))
    assert fault is not None
    assert not fault.refusal


_REFUSED = {
    "in its first steps": (from_moment({"weights": NAN}), 10),
    "grows fast": (_grows(3.0), HEALTHY),
    "grows slowly": (_grows(1.3), HEALTHY),
}


@pytest.mark.parametrize(("after", "healthy"), _REFUSED.values(), ids=_REFUSED)
def test_a_training_that_diverges_by_itself_is_refused(after: Callable[[int], Numbers], healthy: int) -> None:
    if healthy < HEALTHY:
        health = Health()
        for step in range(healthy):
            health.observe(usual(step))
        fault = health.observe(usual(healthy)._replace(weights=NAN))
    else:
        fault = fault_of(after, looks=400)
    assert fault is not None
    assert fault.refusal


def test_a_broken_state_of_the_optimizer_is_a_fault() -> None:
    health = Health()
    for step in range(HEALTHY):
        health.observe(usual(step))
    fault = health.observe(usual(HEALTHY), state_is_finite=False)
    assert fault is not None
    assert fault.cause == NOT_FINITE
    assert not fault.refusal


def test_a_loss_of_the_wrong_sign_is_refused() -> None:
    health = Health()
    for step in range(HEALTHY):
        health.observe(usual(step)._replace(loss=-3.0 * step))
    fault = health.observe(usual(HEALTHY)._replace(gradient=5000.0))
    assert fault is not None
    assert fault.refusal
