from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping

import numpy as np
import pandas
import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.views.dashboard.expression import MOST_DEPTH, MOST_LETTERS, Expression, Numbers, Read

STATISTICS = ("mean", "l2", "std", "min", "max")
STEPS = np.arange(5)
COLUMNS: Mapping[Read, Numbers] = {
    Read("l2", ""): Numbers(STEPS, np.array([1.0, 10.0, 100.0, 0.0, -4.0])),
    Read("mean", ""): Numbers(STEPS, np.array([2.0, 4.0, 8.0, 16.0, 32.0])),
    Read("l2", "a b/c"): Numbers(np.array([1, 3, 4]), np.array([5.0, 7.0, 8.0])),
    Read("", "x"): Numbers(np.array([0, 2, 4]), np.array([1.0, 2.0, 3.0])),
}
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("text", "steps", "values"),
    [
        pytest.param("l2", STEPS, [1, 10, 100, 0, -4], id="a-statistic"),
        pytest.param("l2 / mean", STEPS, [0.5, 2.5, 12.5, 0, -0.125], id="a-quotient"),
        pytest.param("mean/l2", STEPS, [2, 0.4, 0.08, INF, -8], id="divided-by-zero-is-not-finite"),
        pytest.param("log10(l2)", STEPS, [0, 1, 2, -INF, NAN], id="a-logarithm-of-none"),
        pytest.param('l2("a b/c") - l2', [1, 3, 4], [-5, 7, 12], id="another-tensor-at-shared-steps"),
        pytest.param("'x'", [0, 2, 4], [1, 2, 3], id="a-tensor-alone"),
        pytest.param('"x" * l2("a b/c")', [4], [24], id="one-step-in-common"),
        pytest.param("-mean ^ 2", STEPS, [-4, -16, -64, -256, -1024], id="a-power-before-a-sign"),
        pytest.param("mean ** -1", STEPS, [0.5, 0.25, 0.125, 0.0625, 0.03125], id="a-power-as-in-python"),
        pytest.param("2 ^ 3 ^ 2 + 0 * mean", STEPS, [512] * 5, id="powers-from-the-right"),
        pytest.param("mean - 1 - 1", STEPS, [0, 2, 6, 14, 30], id="differences-from-the-left"),
        pytest.param("2*(mean+1e0)/.5", STEPS, [12, 20, 36, 68, 132], id="brackets-and-numbers"),
        pytest.param("moving_mean(mean, 2)", STEPS, [2, 3, 6, 12, 24], id="a-moving-mean"),
        pytest.param("moving_mean(log10(l2), 3)", STEPS, [0, 0.5, 1, 1.5, 2], id="a-moving-mean-of-the-finite"),
        pytest.param("change(mean)", STEPS, [NAN, 2, 4, 8, 16], id="a-change"),
        pytest.param("sqrt(abs(l2))", STEPS, [1, math.sqrt(10), 10, 0, 2], id="functions-within-one-another"),
        pytest.param("10 ^ 10 ^ 10 ^ 10 * mean", STEPS, [INF] * 5, id="a-huge-power-is-a-number-of-64-bits"),
    ],
)
def test_an_expression_is_computed_at_the_steps_that_all_have(text: str, steps: object, values: list[float]) -> None:
    found = Expression.parse(text, statistics=STATISTICS).numbers(COLUMNS)
    np.testing.assert_array_equal(found.steps, steps)
    np.testing.assert_allclose(found.values, values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", ("character 1:", "the text ends"), id="nothing"),
        pytest.param("l2 / / mean", ("character 6:", "'/' stands there", "What works: l2 / std"), id="two-signs"),
        pytest.param("l2 mean", ("character 4:", "ends before 'mean'"), id="no-sign"),
        pytest.param("(l2", ("character 4:", "')' is missing, for '(' at character 1"), id="an-open-bracket"),
        pytest.param("meen / l2", ("character 1:", "'meen' is no statistic", "Did you mean 'mean'?"), id="a-typo"),
        pytest.param("fc.weight / l2", ("character 3:", "Names of tensors stand in quotes"), id="no-quotes"),
        pytest.param('"fc', ("character 1:", "A quote has no end"), id="an-open-quote"),
        pytest.param("log10 l2", ("character 7:", "log10 needs brackets"), id="a-function-without-brackets"),
        pytest.param("moving_mean(l2)", ("The number of steps is missing. moving_mean(l2, 20)",), id="no-width"),
        pytest.param("moving_mean(l2, 0)", ("must be 1 or more",), id="no-steps"),
        pytest.param("moving_mean(l2, 2.5)", ("must be 1 or more",), id="half-a-step"),
        pytest.param("l2(mean)", ("character 4:", 'needs a tensor in quotes: l2("…")'), id="a-statistic-of-none"),
        pytest.param("1 + 2", ("No statistic stands in it",), id="a-constant"),
        pytest.param("l2 + ('x' ; 1)", ("character 11:", "';' has no meaning"), id="another-sign"),
        pytest.param("__import__('os')", ("'__import__' is no statistic",), id="python"),
        pytest.param("l2.__class__", ("character 3:", "'.' has no meaning"), id="an-attribute"),
        pytest.param("(" * 2000 + "l2", ("at most 500",), id="too-long"),
        pytest.param("(" * 200 + "l2" + ")" * 200, (f"More than {MOST_DEPTH} brackets",), id="too-deep"),
        pytest.param("-" * 200 + "l2", (f"More than {MOST_DEPTH} brackets",), id="too-many-signs"),
        pytest.param("+".join(f'"{place}"' for place in range(9)), ("9 statistics", "at most 8"), id="too-many"),
        pytest.param("l2 + ²", ("character 6:",), id="a-digit-that-is-none"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_works(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Expression.parse(text, statistics=STATISTICS)
    for word in words:
        assert word in str(raised.value)


def test_a_moving_mean_is_that_of_pandas_and_recovers_from_a_spike() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    values[100], values[200], values[300] = 1e30, NAN, INF
    read = Read("l2", "")
    for width in (1, 7, 100, 999, 1000, 5000):
        found = Expression.parse(f"moving_mean(l2, {width})", statistics=STATISTICS)
        ours = found.numbers({read: Numbers(np.arange(1000), values)}).values
        finite = pandas.Series(np.where(np.isfinite(values), values, NAN))
        wanted = [finite[max(0, place - width + 1) : place + 1].mean() for place in range(1000)]
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-12)


def test_random_text_is_understood_or_refused_at_once() -> None:
    """No text of a browser raises anything else, or takes long."""
    random.seed(0)
    pieces = [*STATISTICS, "log10", "moving_mean", '"x"', *"(),+-*/^' 1é\0"]
    began = time.process_time()
    understood = 0
    for _ in range(3000):
        text = "".join(random.choices(pieces, k=random.randrange(1, 14)))
        try:
            expression = Expression.parse(text[:MOST_LETTERS], statistics=STATISTICS)
        except ConfigurationError:
            continue
        known = {read: Numbers(STEPS, np.array([1.0, NAN, -1.0, 0.0, 1e300])) for read in expression.reads}
        assert len(expression.numbers(known).values) == len(STEPS)
        understood += 1
    assert understood > 20
    assert time.process_time() - began < 20
