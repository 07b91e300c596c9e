"""Reductions against NumPy in float64, and against what the original's PyTorch hook computes: torch itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.for_each import for_each
from trackside.capture.steps.reduction import REDUCTIONS, reduced
from trackside.contracts import capture_request

ORACLE: dict[str, Callable[[Any], Any]] = {
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "std": lambda x: np.std(x, ddof=1),
    "variance": lambda x: np.var(x, ddof=1),
    "sum": np.sum,
    "prod": np.prod,
    "l1_norm": lambda x: np.linalg.norm(x, 1),
    "l2_norm": lambda x: np.linalg.norm(x, 2),
}
WRITTEN = {token: token.removesuffix("_norm") for token in ORACLE}


def one(values: Any, token: str) -> Any:
    ((_, found),) = reduced("w", np.asarray(values), (token,))
    assert found.shape == ()
    return found


def test_every_token_of_a_request_is_computed() -> None:
    assert set(capture_request.REDUCTIONS) == {*REDUCTIONS, *(f"abs_{token}" for token in REDUCTIONS)}


VALUES: Mapping[str, np.ndarray[Any, Any]] = {
    "float32": np.linspace(-2, 3, 24, dtype="f4").reshape(2, 3, 4),
    "float64-transposed": np.linspace(-2, 3, 24).reshape(4, 6).T,
    "float16": np.linspace(-2, 3, 24, dtype="f2"),
    "int64": np.arange(-5, 7, dtype="i8"),
    "int8-whose-absolute-overflows": np.array([-128, 127], "i1"),
    "bool": np.array([True, False, True]),
    "constant": np.array(2.5, "f4").repeat(2),
    "several-blocks": np.full(40_000, 1.1, "f4"),
    "nan": np.array([1.0, np.nan, 2.0], "f4"),
    "infinite": np.array([1.0, -np.inf, 2.0], "f4"),
}


@for_each(
    {
        f"{'abs ' if is_abs else ''}{token} of {name}": (token, is_abs, values)
        for name, values in VALUES.items()
        for is_abs in (False, True)
        for token in ORACLE
    }
)
def test_a_reduction_is_numpys(token: str, is_abs: bool, values: np.ndarray[Any, Any]) -> None:
    wide = values.astype(np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        expected = ORACLE[token](np.abs(wide) if is_abs else wide)
        expected = np.asarray(expected, values.dtype if values.dtype in ("f4", "f8") else "f4")
    ((name, found),) = reduced("fc.weight", values, (f"abs_{token}" if is_abs else token,))
    assert name == f"smdebug/reductions/{'abs_' if is_abs else ''}{WRITTEN[token]}/fc.weight"
    assert (found.dtype, found.shape) == (expected.dtype, ())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@given(hnp.arrays("f4", st.integers(2, 50), elements=st.floats(-1e3, 1e3, width=32)), st.sampled_from(sorted(ORACLE)))
def test_a_reduction_is_numpys_for_any_values(values: np.ndarray[Any, Any], token: str) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(ORACLE[token](values.astype("f8")), "f4")
    np.testing.assert_allclose(one(values, token), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("token", ["std", "variance"])
def test_a_spread_is_that_of_a_sample_as_the_originals_hook_saves_it(token: str) -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(1e4, 1, 1000).astype("f4")
    expected = getattr(torch.from_numpy(values).double(), {"std": "std", "variance": "var"}[token])()
    assert one(values, token) == pytest.approx(float(expected), rel=1e-6)
    assert np.isnan(one([1.0], token))


def test_complex_numbers_have_no_order() -> None:
    values = np.array([1 + 1j, 3j])
    names = [name for name, _ in reduced("z", values, ("min", "max", "mean", "abs_max", "l2_norm", "std"))]
    assert names == [f"smdebug/reductions/{r}/z" for r in ("mean", "abs_max", "l2", "std")]
    assert one(values, "mean") == values.mean()
    assert one(values, "std") == pytest.approx(values.std(ddof=1))
    assert one(values, "l2_norm") == pytest.approx(np.sqrt(11))


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([object()]), np.array(["2026-01-01"], "M8[D]")])
def test_what_is_no_number_has_none(values: np.ndarray[Any, Any]) -> None:
    assert reduced("x", values, ("mean", "max")) == []


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        pytest.param("out:0", "out", id="the place of an output leaves the name"),
        pytest.param("dense/kernel:0", "dense/kernel:0", id="that of a variable of TensorFlow stays"),
        pytest.param("a:0/b", "a/b", id="within"),
    ],
)
def test_places_in_names(tensor: str, name: str) -> None:
    ((found, _),) = reduced(tensor, np.ones(2), ("mean",))
    assert found == f"smdebug/reductions/mean/{name}"
