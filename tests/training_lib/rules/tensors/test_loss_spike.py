"""loss-spike: the training loss leaves its recent level for a higher one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.run.recorded_names import UPDATE_SIZE, loss_term
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.tensors.loss_spike import LossSpike
from trackside.situation.losses.spikes import first_of_spike, level_left
from trackside.testing.fake_trial import WALL_TIME
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, OTHER, RATE = "CrossEntropyLoss_output_0", "loss_output_0", "hyperparameters/AdamW/group_0/lr"
TWO_OPTIMIZERS = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))
SECOND_TRAINER = (
    ModelFacts(optimizers=(OptimizerFacts("AdamW", "AdamW"),)),
    ModelFacts(from_step=200, optimizers=(OptimizerFacts("AdamW_1", "AdamW"),)),
)
ONE_EACH_EPOCH = tuple(
    ModelFacts(from_step=40 * n, optimizers=(OptimizerFacts(f"AdamW_{n}", "AdamW"),)) for n in range(5)
)
BODY, HEAD = (
    ParameterFacts(f"Net_{name}.weight", name, (8, 8), "float32", optimizer="AdamW") for name in ("body", "head")
)
FOLDS = tuple(
    ModelFacts(
        from_step=50 * n,
        parameters=(replace(BODY, name=f"Net{n}_body.weight", optimizer=f"AdamW_{n}"),),
        optimizers=(OptimizerFacts(f"AdamW_{n}", "AdamW"),),
    )
    for n in range(5)
)
ONE_MODEL_AGAIN = tuple(
    replace(fold, parameters=(replace(BODY, optimizer=f"AdamW_{n}"),)) for n, fold in enumerate(FOLDS)
)
TWO_PARTS = ModelFacts(parameters=(BODY, HEAD), optimizers=(OptimizerFacts("AdamW", "AdamW"),))
SUM = ModelFacts(losses=(LossFacts(LOSS, backward_line="train.py:9"),))  # computed by hand
OF_CLASSES, OF_NUMBERS = (
    replace(SUM, losses=(*SUM.losses, replace(term, backward_line="train.py:9")))
    for term in (LossFacts("NLLLoss_output_0", "NLLLoss", class_count=9), LossFacts("MSELoss_output_0", "MSELoss"))
)
NUMBERS = ModelFacts(losses=(LossFacts(LOSS, "MSELoss", "mean"),))
_NOISE = np.random.default_rng(0).normal(0, 1, 2000)


def learned(steps: int = 200, *, level: float = 2.4, noise: float = 0.05) -> list[float]:
    """Losses that fall from 4.9 to a level, with noise."""
    losses = level + (4.9 - level) * np.exp(-np.arange(steps) / 20) + noise * _NOISE[:steps]
    return [float(loss) for loss in losses]


def case(
    name: str,
    losses: Sequence[float],
    *,
    fires: tuple[str, ...] = (),
    rates: Sequence[float] = (),
    updates: Sequence[float] = (),
    **more: Any,
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {LOSS: {"mean": along(losses)}}
    if rates:
        recorded[RATE] = {"mean": along(rates)}
    if updates:
        recorded[UPDATE_SIZE] = {"mean": along(updates)}
    return RuleCase(name, recorded={**recorded, **more.pop("also", {})}, fires=fires, **more)


def _rising(count: int, *, by: float = 0.1) -> list[float]:
    return [2.4 * (1 + by * (k + 1)) for k in range(count)]


WARM = [1e-3 * min(1.0, (k + 1) / 50) for k in range(200)]
LATE_RATE = [3e-3] * 200 + [3e-3 * 1.2**k for k in range(1, 41)]
LATE_UPDATES = [0.002 + 1e-5 * float(_NOISE[k]) for k in range(200)] + [0.002 * 1.2**k for k in range(1, 41)]
AFTER_40 = learned() + _rising(40)

BOOTSTRAPPED = [*learned(level=0.3), *[0.3 * 1.06**k for k in range(90)]]  # the target grows with the estimate
LATE_TERM = [*learned(), *[2.4 + 8.0 * min(1.0, k / 20) for k in range(40)]]


def beside(*newest: float) -> dict[str, Any]:
    """Return looks at two terms of `LATE_TERM`, a few before it rises and two after, and updates that grow."""
    main = dict(zip([1, 20, 100, 180, 205, 230], [4.9, 3.2, 2.4, 2.4, *newest], strict=False))
    return {"facts": SUM, "updates": LATE_UPDATES, "also": {loss_term(0): {"mean": main}}}


PHASED_IN = [*learned(), *[2.4 + 8.0 * min(1.0, k / 40) for k in range(90)]]
HARDER = learned() + learned(60, level=4.5)


def small_steps(steps: int) -> dict[str, Any]:
    """Return updates of a thousandth of the weights."""
    return {"also": {BODY.name: {"update_ratio": dict.fromkeys(range(steps), 1e-3)}}}


def term_of(share: float) -> dict[str, Any]:
    """Return updates that run away, and the value of a term that makes that share of a sum."""
    looks = {step: share * AFTER_40[step] for step in (20, 40, 100)}
    return {"updates": LATE_UPDATES[:209], "also": {loss_term(0): {"mean": looks}}}


def targets(*levels: float) -> dict[str, Any]:
    """Return saved labels at these levels, one each 20 steps, with a deviation of 1."""
    saved = {20 * place: level + _NOISE[:32] for place, level in enumerate(levels)}
    return {"tensors": {"MSELoss_input_1": saved}, "collections": {"labels": ("input_1$",)}}


def parts(steps: int, *, head_from: int, every: int = 1) -> dict[str, Any]:
    """Return the gradients of a body, and of a head that has its first one at a step."""
    measured = range(0, steps, every)
    return {
        "also": {
            BODY.gradient: {"is_present": dict.fromkeys(measured, 1.0)},
            HEAD.gradient: {"is_present": {k: float(k >= head_from) for k in measured}},
        },
        "facts": TWO_PARTS,
    }


FIRES = [
    case("a rate that runs away", AFTER_40[:215], rates=LATE_RATE[:215], fires=(LOSS,)),
    case("updates that run away", AFTER_40[:215], updates=LATE_UPDATES[:215], fires=(LOSS,)),
    case("above all that ever was", [*learned(), 9.0, 20.0, 60.0], fires=(LOSS,)),
    case("a loss that is not finite", [*learned(60), math.nan], fires=(LOSS,)),
    case("the first loss is not finite", [math.nan], fires=(LOSS,)),
    case("infinite for good", [*learned(60), *[math.inf] * 30], fires=(LOSS,)),
    case("a short run that ends far above its best", [2.3, 2.1, 1.9, 30.0, 200.0, 1500.0], fires=(LOSS,)),
    case("a long climb", [2.0 * 1.03**k for k in range(260)], fires=(LOSS,)),
    case("a new level that nothing else confirms", learned() + [3.4] * 30, fires=(LOSS,)),
    case(
        "a second spike like the first",
        [*learned(), 90.0, 95.0, 99.0, *learned()[100:], 90.0, 95.0, 99.0],
        fires=(LOSS,),
    ),
    case("the second trainer's own spike", [*HARDER, 9.0, 20.0, 60.0], facts=SECOND_TRAINER, fires=(LOSS,)),
    case("the second trainer breaks", [*learned(), math.nan], facts=SECOND_TRAINER, fires=(LOSS,)),
    case("an optimizer made each epoch", [*learned(), 9.0, 20.0, 60.0], facts=ONE_EACH_EPOCH, fires=(LOSS,)),
    case("the same model in every optimizer", [*learned(), *[6.0] * 8], facts=ONE_MODEL_AGAIN, fires=(LOSS,)),
    case("a spike within the fifth fold", [*HARDER, 9.0, 20.0, 60.0], facts=FOLDS, fires=(LOSS,)),
    case("a head for later has no gradient yet", HARDER[:225], **parts(225, head_from=999), fires=(LOSS,)),
    case("both parts trained before", [*learned(), 9.0, 20.0, 60.0], **parts(203, head_from=100), fires=(LOSS,)),
    case("a new part, then its own spike", [*HARDER, 9.0, 20.0, 60.0], **parts(263, head_from=200), fires=(LOSS,)),
    case("a new part, and no number", [*learned(), math.nan], **parts(201, head_from=200), fires=(LOSS,)),
    case("a little above all that was, for five steps", [*learned(), 5.2, 5.3, 5.2, 5.4, 5.3], fires=(LOSS,)),
    case(
        "by hand, and large steps",
        [*learned(), *[9.0] * 15],
        facts=SUM,
        also={BODY.name: {"update_ratio": along([0.5] * 215)}},
        fires=(LOSS,),
    ),
    case(
        "targets stay",
        [*learned(), *[9.0] * 15],
        facts=NUMBERS,
        **targets(0, 0, 0, 0, 0, 0, 0),
        **small_steps(215),
        fires=(LOSS,),
    ),
    case("classes beside a small balance of experts", AFTER_40[:209], facts=OF_CLASSES, **term_of(0.97), fires=(LOSS,)),
    case("several optimizers of one loss", [*learned(), 9.0, 20.0, 60.0], facts=TWO_OPTIMIZERS, fires=(LOSS,)),
]
SILENT = [
    case("learning", learned()),
    case("a second trainer begins above all that was", learned() + [9.0] * 25, facts=SECOND_TRAINER),
    case("a second trainer, its own task", HARDER, facts=SECOND_TRAINER),
    case("the fifth fold begins above all that was", learned() + [9.0] * 25, facts=FOLDS),
    case("the fifth fold is harder", HARDER, facts=FOLDS),
    case("a spike that a second trainer ends", [*learned(195), *[60.0] * 5, *[9.0] * 25], facts=SECOND_TRAINER),
    case(
        "a second trainer with larger updates", learned() + [4.0] * 25, updates=LATE_UPDATES[:225], facts=SECOND_TRAINER
    ),
    case("the next task has a head of its own", learned() + [9.0] * 30, **parts(230, head_from=200)),
    case(
        "the same with larger updates", learned() + [4.0] * 25, updates=LATE_UPDATES[:225], **parts(225, head_from=200)
    ),
    case("gradients measured seldom: not yet", learned() + [9.0] * 30, **parts(230, head_from=200, every=64)),
    case("gradients measured seldom: it was the head", learned() + [9.0] * 80, **parts(280, head_from=200, every=64)),
    case("learning, with wide noise", learned(400, noise=0.4)),
    case("a single odd batch", [*learned(), 40.0]),
    case("two odd batches", [*learned(), 40.0, 30.0]),
    case("odd batches now and then", [x if k % 17 else 6.0 for k, x in enumerate(learned(300))]),
    case("a spike that is over", learned() + [9.0, 20.0, 9.0] + [2.4] * 10),
    case("a new level, not yet for long", learned() + [3.4] * 10),
    case("a cycle of the rate", (2.4 + 0.3 * np.sin(np.arange(400) / 20) + 0.05 * _NOISE[:400]).tolist()),
    case("interpolated: a loss near zero that jumps", [*[4.0 * 0.9**k for k in range(150)], 1e-4, 2e-4, 1e-4]),
    case("by hand, above all that was", [*learned(), *[9.0] * 15], facts=SUM, **small_steps(215)),
    case("by hand, with larger updates", AFTER_40[:209], facts=SUM, **term_of(0.97)),
    case("classes beside a penalty as large", AFTER_40[:209], facts=OF_CLASSES, **term_of(0.5)),
    case("numbers beside a small penalty", AFTER_40[:209], facts=OF_NUMBERS, **term_of(0.97)),
    case("a sum without looks at its terms", AFTER_40[:209], facts=OF_CLASSES, updates=LATE_UPDATES[:209]),
    case(
        "values that grow with the policy: not for long",
        [*learned(), *[9.0] * 15],
        facts=NUMBERS,
        **targets(0, 0, 0, 5, 9, 9, 9),
        **small_steps(215),
    ),
    case("a little above all that was, for four steps", [*learned(), 5.2, 5.3, 5.2, 5.4]),
    case("a policy's", [x - 2.5 for x in [*learned(), 9.0, 20.0, 60.0]]),
    case("short", [2.3, 2.1, 1.9, 2.0, 2.2]),
    case("slow growth within the noise", (2.0 + np.arange(400) / 1500 + 0.3 * _NOISE[:400]).tolist()),
    case(
        "of models in turns",
        [*learned(), 9.0, 20.0, 60.0],
        also={OTHER: {"mean": along(learned(203))}},
        facts=TWO_OPTIMIZERS,
    ),
]

test_cases = every_case(LossSpike(), [*FIRES, *SILENT])


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(FIRES[0], Severity.WARNING, id="a-rate"),
        pytest.param(FIRES[1], Severity.WARNING, id="updates"),
        pytest.param(FIRES[2], Severity.WARNING, id="above-all"),
        pytest.param(case("", [*learned(), *[60.0] * 21], fires=(LOSS,)), Severity.WARNING, id="above-all-for-long"),
        pytest.param(case("", BOOTSTRAPPED, fires=(LOSS,)), Severity.WARNING, id="values-that-grow-with-the-policy"),
        pytest.param(case("", PHASED_IN, fires=(LOSS,)), Severity.WARNING, id="a-penalty-that-is-phased-in"),
        pytest.param(
            case("", LATE_TERM, **beside(2.5, 2.4), fires=(LOSS,)), Severity.INFO, id="the-largest-term-stays"
        ),
        pytest.param(
            case("", LATE_TERM, **beside(4.0, 9.0), fires=(LOSS,)), Severity.CRITICAL, id="the-largest-term-rises"
        ),
        pytest.param(case("", LATE_TERM, **beside(), fires=(LOSS,)), Severity.WARNING, id="no-look-at-the-terms-yet"),
        pytest.param(
            case("", [*learned(), *[60.0] * 30], rates=[*[3e-3] * 200, *[0.1] * 30], fires=(LOSS,)),
            Severity.CRITICAL,
            id="above-all-by-the-rate",
        ),
        pytest.param(
            case("", [*learned(), *[60.0] * 30], updates=[*LATE_UPDATES[:200], *[0.5] * 30], fires=(LOSS,)),
            Severity.CRITICAL,
            id="above-all-by-updates",
        ),
        pytest.param(
            case("", [*learned(), *[60.0] * 30], rates=[*[3e-3] * 210, *[0.1] * 20], fires=(LOSS,)),
            Severity.CRITICAL,
            id="a-rate-that-follows",
        ),
        pytest.param(FIRES[3], Severity.WARNING, id="one-nan"),
        pytest.param(FIRES[5], Severity.CRITICAL, id="many"),
        pytest.param(FIRES[8], Severity.INFO, id="only-the-loss"),
        pytest.param(FIRES[9], Severity.WARNING, id="a-second-one"),
        pytest.param(
            case("", [*learned(), *[9.0] * 30], facts=SUM, **small_steps(230), fires=(LOSS,)),
            Severity.INFO,
            id="by-hand-and-small-steps",
        ),
        pytest.param(
            case("", [*learned(), *[3.4] * 150], rates=[*[3e-3] * 200, *[0.1] * 150], fires=(LOSS,)),
            Severity.CRITICAL,
            id="a-rate-for-long",
        ),
    ],
)
def test_how_bad_it_is(case: RuleCase, severity: Severity) -> None:
    assert LossSpike().severity_of(_found(case)) is severity


RAISED = [*[3e-3] * 200, *[0.1] * 160]


@pytest.mark.parametrize(
    ("level", "last", "rates", "is_over"),
    [
        pytest.param(3.4, 2.6, RAISED, True, id="falls-by-a-rate-that-stays"),
        pytest.param(3.4, 3.4, RAISED, False, id="stays-where-the-rate-threw-it"),
        pytest.param(6.0, 4.5, RAISED, False, id="lost-most-of-what-was-learned"),
        pytest.param(3.4, 2.7, [*[3e-3] * 200, *[0.1 * 1.01**k for k in range(160)]], False, id="a-rate-that-rises"),
    ],
)
def test_a_new_rate_may_begin_a_training_of_its_own(
    level: float, last: float, rates: Sequence[float], is_over: bool
) -> None:
    losses = [*learned(), *(np.linspace(level, last, 160) + 0.05 * _NOISE[200:360]).tolist()]
    rule, run = LossSpike(), case("", losses, rates=rates).trial
    state, found = rule.start(), []
    for step in range(len(losses)):
        state, findings = rule.fold(state, run.window(step, now=WALL_TIME))
        found += [step] if [*findings] else []
    assert 200 <= found[0] < 210  # a warning at first: nobody can tell yet
    assert (found[-1] < len(losses) - 1) is is_over


def test_it_says_since_when_and_from_where() -> None:
    found = _found(FIRES[0])
    assert 200 <= found[0].since_step <= 203
    assert "rose from 2.4" in LossSpike().sentence(found)
    assert f"since step {found[0].since_step}" in LossSpike().sentence(found)
    assert "not finite since step 60" in LossSpike().sentence(_found(FIRES[3]))


@pytest.mark.parametrize(
    ("case", "causes", "because"),
    [
        pytest.param(
            FIRES[0],
            [Cause.LEARNING_RATE_SCHEDULE, Cause.LEARNING_RATE_TOO_HIGH],
            "never above 0.003 before",
            id="rate",
        ),
        pytest.param(
            FIRES[1],
            [Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS],
            "times as large as in the 50 steps before",
            id="updates",
        ),
    ],
)
def test_what_it_suspects(case: RuleCase, causes: list[Cause], because: str) -> None:
    suspected = LossSpike().suspicions(_found(case), case.window)
    assert [suspicion.cause for suspicion in suspected] == causes
    assert any(because in suspicion.because for suspicion in suspected)


def test_a_loss_that_only_moved_has_no_suspect() -> None:
    assert LossSpike().suspicions(_found(FIRES[8]), FIRES[8].window) == ()


def test_a_rate_that_only_warms_up_again_confirms_nothing() -> None:
    again = case("", [*learned(), *_rising(12, by=0.05)], rates=[*WARM, *[1e-3 * (k + 1) / 12 for k in range(12)]])
    assert_case(LossSpike(), again)


@given(scale=st.floats(1e-6, 1e6), at=st.integers(150, 195))
def test_the_sum_has_no_unit(scale: float, at: int) -> None:
    losses = np.array(learned()[:at] + _rising(5, by=0.2)) * scale
    assert first_of_spike(losses, threshold=8, rise_percent=5) in {at - 1, at}  # a noisy loss before it may count


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(30, 160),
    level=st.sampled_from([-3.0, 0.0, 1e-3, 2.3]),
    noise=st.sampled_from([0.0, 0.02, 0.5]),
    rise=st.sampled_from([0.0, 5.0, 60.0, 250.0]),
    broken=st.sampled_from([None, math.nan, math.inf, -math.inf]),
)
def test_quick_looks_change_no_answer(
    *, seed: int, count: int, level: float, noise: float, rise: float, broken: float | None
) -> None:
    random = np.random.default_rng(seed)
    losses = level + noise * random.standard_normal(count) + 3 * np.exp(-np.arange(count) / 20)
    losses[-int(random.integers(1, 9)) :] += random.choice([0.0, 0.1, 1.0, 5.0])
    if broken is not None:
        losses[int(random.integers(0, count - 1))] = broken
    assert first_of_spike(losses, threshold=8, rise_percent=rise) == _by_definition(losses.tolist(), rise / 100)


def _by_definition(losses: Sequence[float], rise: float) -> int | None:
    """Step 2 of the rule's page in plain Python."""

    def level_of(some: Sequence[float]) -> float:
        return statistics.median_high([one for one in some if math.isfinite(one)])

    began = [one for one in losses[:3] if math.isfinite(one)]
    first, now = max(began[0], statistics.median(began)), level_of(losses[-101:-1])
    if len(losses) <= 30 or not losses[-1] > now + rise * max(abs(now), first - now):
        return None
    total, since = 0.0, len(losses) - 1
    for at in range(max(30, len(losses) - 24), len(losses)):
        before = [one for one in losses[max(0, at - 100) : at] if math.isfinite(one)]
        level = level_of(before)
        deviation = 1.4826 * level_of([abs(one - level) for one in before])
        above = (losses[at] - level) / deviation if deviation > 0 else math.copysign(4.0, losses[at] - level)
        if not math.isfinite(above):
            return None
        since = at if total == 0.0 else since
        total = max(0.0, total + min(4.0, max(-4.0, above)) - 1)
    return since if total > 8 else None


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        pytest.param([2.3, 2.1, 1.9, 30.0, 200.0, 1500.0], 2.1, id="many-times-the-best"),
        pytest.param([2.3, 2.1, 1.9, 30.0, 1.0, 1500.0], None, id="one-is-low"),
        pytest.param([2.3, 1e-4, 1e-4, 1e-4, 1e-2, 1e-2, 1e-2], None, id="still-nearly-all-learned"),
        pytest.param([2.3, 0.1, 0.1, 0.1, 2.0, 2.0, 2.0], 0.1, id="nearly-nothing-left"),
        pytest.param([2.3, 2.1], None, id="too-few"),
        pytest.param([math.nan] * 9, None, id="none-finite"),
    ],
)
def test_the_level_at_the_end(losses: list[float], best: float | None) -> None:
    assert level_left(np.array(losses), times=10) == best


def _found(case: RuleCase) -> tuple[Finding, ...]:
    return assert_case(LossSpike(), case)
