"""The statistics against NumPy in double precision, and on values that are no numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from trackside.trial.tensors.statistics import OF_SINGLES, STATISTICS, summarise, summarise_many, widened


def of(tensor: NDArray[np.generic]) -> dict[str, float]:
    summary = summarise(tensor)
    assert summary is not None
    numbers = widened(np.array([[summary]]))[:, 0] if isinstance(summary, float) else summary
    return dict(zip(STATISTICS, numbers.tolist(), strict=True))


def oracle(x: NDArray[np.float64]) -> dict[str, float]:
    """Independent of the code: Python's exact sums."""
    values = x.reshape(-1).tolist()
    n = len(values)
    mean = math.fsum(values) / n
    return {
        "mean": mean,
        "std": math.sqrt(math.fsum((v - mean) ** 2 for v in values) / n),
        "min": min(values),
        "max": max(values),
        "abs_mean": math.fsum(abs(v) for v in values) / n,
        "abs_max": max(abs(v) for v in values),
        "l2": math.sqrt(math.fsum(v * v for v in values)),
        "zero_share": sum(v == 0 for v in values) / n,
        "nonfinite_count": 0,
        "nan_count": 0,
    }


@given(
    npst.arrays(
        st.sampled_from([np.float64, np.float32, np.float16, np.int32, np.uint8]),
        npst.array_shapes(max_dims=3, max_side=5),
        elements={"min_value": 0, "max_value": 100},
    )
)
def test_agrees_with_exact_sums(tensor: NDArray[np.generic]) -> None:
    expected = oracle(tensor.astype(np.float64))
    assert of(tensor) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_signs_count() -> None:
    assert of(np.array([-3.0, 0.0, 1.0])) == pytest.approx(oracle(np.array([-3.0, 0.0, 1.0])))


@pytest.mark.parametrize("value", [0.0, -2.5, 7, True, math.nan, math.inf, -math.inf])
def test_a_single_value_is_judged_like_any_array(value: float) -> None:
    single, twice = of(np.array(value)), of(np.array([value, value]))
    for name in ("mean", "std", "min", "max", "abs_mean", "abs_max", "zero_share"):
        assert single[name] == pytest.approx(twice[name], nan_ok=True), name
    assert 2 * single["nonfinite_count"] == twice["nonfinite_count"]
    assert 2 * single["nan_count"] == twice["nan_count"]


def test_nonfinite_values_show_and_do_not_warn() -> None:
    found = of(np.array([1.0, math.nan, math.inf, -math.inf], np.float32))
    assert found["nonfinite_count"] == 3
    assert found["nan_count"] == 1
    assert math.isnan(found["mean"])
    assert math.isnan(found["abs_max"])


def test_half_precision_does_not_overflow_on_the_way() -> None:
    assert of(np.full(1000, 60000, np.float16))["mean"] == pytest.approx(60000, rel=1e-3)
    assert math.isfinite(of(np.full(1000, 60000, np.float16))["l2"])


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(np.array(["a", "b"]), id="text"),
        pytest.param(np.array([1j, 2j]), id="complex"),
        pytest.param(np.zeros((0, 3)), id="empty"),
    ],
)
def test_what_has_no_statistics_has_none(tensor: NDArray[np.generic]) -> None:
    assert summarise(tensor) is None


@given(
    npst.arrays(
        st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_]),
        st.tuples(st.integers(1, 40), st.integers(2, 300)),
    )
)
def test_many_at_once_are_bit_for_bit_what_each_is_alone(tensors: NDArray[np.generic]) -> None:
    together = summarise_many(tensors)
    alone = np.array([summarise(tensor) for tensor in tensors]).T
    np.testing.assert_array_equal(together.view(np.uint64), alone.view(np.uint64))


@pytest.mark.parametrize("elements", [2, 7, 8, 9, 127, 128, 129, 1000, 1 << 16, (1 << 16) + 1])
def test_no_number_of_elements_changes_the_order_of_a_sum(elements: int) -> None:
    tensors = np.random.default_rng(0).normal(size=(300 if elements < 2000 else 3, elements)).astype(np.float32)
    alone = np.array([summarise(tensor) for tensor in tensors]).T
    np.testing.assert_array_equal(summarise_many(tensors), alone)
    np.testing.assert_array_equal(summarise_many(tensors[:, ::-1][:, ::-1]), alone)


@given(npst.arrays(st.sampled_from([np.float64, np.float16, np.int64, np.uint64, np.bool_]), st.integers(1, 20)))
def test_single_values_at_once_are_what_each_is_alone(values: NDArray[np.generic]) -> None:
    together = widened(summarise_many(values.reshape(-1, 1)))
    alone = np.stack([widened(np.array([[summarise(value)]]))[:, 0] for value in values], axis=1)
    np.testing.assert_array_equal(together.view(np.uint64), alone.view(np.uint64))


def test_both_tables_name_the_same_statistics() -> None:
    assert list(OF_SINGLES) == list(STATISTICS)


def test_the_norm_of_a_single_value_neither_overflows_nor_vanishes() -> None:
    assert of(np.array([1e300]))["l2"] == 1e300
    assert of(np.array([-1e-300]))["l2"] == 1e-300
