"""Charts of profiles: their numbers, and drawings that stand by themselves."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from trackside.views.report.charts.markup import Markup
from trackside.views.report.charts.profile_charts import histogram_chart, time_chart, usage_map

TIMES = np.arange(0.0, 1000.0)


def bars(chart: Markup) -> list[str]:
    """Return the titles of the bars."""
    tree = ET.fromstring(chart)  # noqa: S314 - our own drawing
    return [title.text or "" for rect in tree.findall(".//{*}rect") for title in rect.findall("{*}title")]


def test_a_histogram_counts_what_lies_outside_in_its_ends() -> None:
    found = bars(histogram_chart("a", np.array([-5.0, 0.0, 1.5, 2.0, 99.0]), np.array([0.0, 1.0, 2.0, 3.0])))
    assert found == ["0 to 1: 2", "1 to 2: 1", "2 to 3: 2"]


def test_a_single_peak_is_in_the_drawing() -> None:
    values = np.zeros(1000)
    values[500] = 7.0
    assert "from 0 to 7" in time_chart("a", {"b": (TIMES, values)})


@pytest.mark.parametrize(
    "chart",
    [
        pytest.param(time_chart("<script>", {"a<b": (TIMES, TIMES), "c": (TIMES, -TIMES)}), id="two curves"),
        pytest.param(time_chart("one", {"a": (TIMES[:1], TIMES[:1])}), id="one sample"),
        pytest.param(time_chart("gap", {"a": (TIMES, np.where(TIMES > 500, np.nan, 1.0))}), id="a gap"),
        pytest.param(time_chart("never", {"a": (TIMES, np.full(1000, np.nan))}), id="no finite number"),
        pytest.param(time_chart("none", {}), id="no curve"),
        pytest.param(histogram_chart("a", np.empty(0), np.array([0.0, 1.0])), id="an empty histogram"),
        pytest.param(usage_map("a", ["x", "y<"], np.array([[1.0, np.nan], [120.0, -3.0]]), 3.0), id="a map"),
    ],
)
def test_a_drawing_is_well_formed_and_has_finite_places_only(chart: Markup) -> None:
    tree = ET.fromstring(chart)  # noqa: S314 - our own drawing
    assert tree.tag.endswith("svg")
    assert "<script" not in chart
    for element in tree.iter():
        for name in ("d", "points", "x", "y", "width", "height"):
            assert "nan" not in element.get(name, "")
            assert "inf" not in element.get(name, "")
