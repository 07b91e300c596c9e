"""The losses in the list of runs, and its order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from tests.training_lib.views.dashboard.runs import LOSS, write_judged_run
from tests.training_lib.views.dashboard.served import Served, served
from tests.training_lib.views.dashboard.test_run_list import settle
from tests.work import bytecodes
from trackside.contracts.errors import TracksideError
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run.last_losses import MOST_POINTS, LastLoss
from trackside.contracts.run_layout import RULE_REQUEST_KEY, RunLocation
from trackside.runs.run_folder import RunRecord, write_record
from trackside.runs.run_summary import RunSummary
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors
from trackside.views.dashboard.run_list import GROWING_SECONDS, LISTED_SECONDS, RunList
from trackside.views.dashboard.run_order import ASCENDING, DESCENDING, RunOrder


def write_losses(folder: Path, values: dict[int, float], *, ended: bool = True) -> None:
    run = RunLocation(str(folder))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    for step in {0, max(values)}:  # the newest one is complete
        write_tensors(saved, step, {LOSS: values[step]})
    write_statistics(LocalStore(run.statistics), {LOSS: {"mean": values}})
    if ended:
        end_run(saved)


def found(runs: RunList, name: str) -> LastLoss | None:
    ((_, one),) = runs.summaries([name])
    assert isinstance(one, RunSummary)
    losses = runs.losses([one])[name]
    assert not isinstance(losses, TracksideError)
    return losses.training


def never_captured(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / RULE_REQUEST_KEY).write_text(RuleRequest(()).to_json())
    write_record(folder, RunRecord(("python", "train.py"), WALL_TIME, WALL_TIME + 1, 1))


@pytest.mark.parametrize(
    ("write", "last"),
    [
        pytest.param(lambda run: write_losses(run, {0: 2.0, 1: 0.5}), 0.5, id="ended"),
        pytest.param(lambda run: write_losses(run, {0: 2.0, 1: 0.5}, ended=False), 0.5, id="live"),
        pytest.param(lambda run: write_losses(run, {0: 2.0}), 2.0, id="one-step"),
        pytest.param(lambda run: write_losses(run, {0: 2.0, 1: math.nan}), math.nan, id="not-a-number-at-last"),
        pytest.param(lambda run: write_losses(run, dict.fromkeys(range(9), math.nan)), math.nan, id="never-a-number"),
        pytest.param(lambda run: write_judged_run(run, verdicts=()), None, id="no-loss"),
        pytest.param(never_captured, None, id="never-captured"),
    ],
)
def test_the_last_loss_of_a_run_is_known(tmp_path: Path, write: Callable[[Path], None], last: float | None) -> None:
    write(tmp_path / "a")
    one = found(RunList(str(tmp_path)), "a")
    if last is None:
        assert one is None
    else:
        assert isinstance(one, LastLoss)
        assert one.last == pytest.approx(last, nan_ok=True)


def test_a_curve_of_many_steps_has_few_points(tmp_path: Path) -> None:
    write_losses(tmp_path / "a", {step: 1.0 / (1 + step) for step in range(1000)})
    one = found(RunList(str(tmp_path)), "a")
    assert isinstance(one, LastLoss)
    assert len(one.points) == MOST_POINTS
    assert (one.points[0][0], one.points[-1][1]) == (0, 999)


def test_the_loss_of_a_run_that_has_ended_is_read_once(tmp_path: Path) -> None:
    now = [0.0]
    write_losses(tmp_path / "a", dict.fromkeys(range(100), 1.0))
    settle(tmp_path / "a")
    runs = RunList(str(tmp_path), clock=lambda: now[0])
    first = bytecodes(lambda: found(runs, "a"))
    now[0] = 100 * GROWING_SECONDS
    assert bytecodes(lambda: found(runs, "a")) < first / 10


def test_the_loss_of_a_run_that_grows_is_read_again_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    write_losses(tmp_path / "a", {0: 2.0}, ended=False)
    runs = RunList(str(tmp_path), clock=lambda: now[0])
    lasts = []
    for moment, value in ((0.0, 2.0), (LISTED_SECONDS, 1.0), (GROWING_SECONDS, 0.5)):
        now[0] = moment
        write_losses(tmp_path / "a", {0: 2.0, 1: value}, ended=False)
        one = found(runs, "a")
        assert isinstance(one, LastLoss)
        lasts.append(one.last)
    assert lasts == [2.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("query", "order"),
    [
        pytest.param({}, RunOrder(), id="the-usual-one"),
        pytest.param({"sort": "loss"}, RunOrder("loss", ASCENDING), id="the-least-loss-first"),
        pytest.param({"sort": "worst"}, RunOrder("worst", DESCENDING), id="the-gravest-first"),
        pytest.param({"sort": "loss", "order": "descending"}, RunOrder("loss", DESCENDING), id="the-other-way"),
        pytest.param({"sort": "loss", "order": "sideways"}, RunOrder("loss", ASCENDING), id="an-order-unknown"),
        pytest.param({"sort": "__class__", "order": "descending"}, RunOrder(), id="a-column-unknown"),
    ],
)
def test_an_address_has_the_order(query: dict[str, str], order: RunOrder) -> None:
    assert RunOrder.of(query) == order
    assert RunOrder.of(order.query) == order


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("losses")
    runs = place / ".trackside/runs"
    write_losses(runs / "low", {0: 2.0, 1: 0.5})
    write_losses(runs / "high", {0: 2.0, 1: 1.5, 2: 1.4})
    write_losses(runs / "broken", {0: 2.0, 1: math.nan})
    write_judged_run(runs / "grave", verdicts=(issue(),))
    never_captured(runs / "never")
    (runs / "low/statistics/big.bin").write_bytes(bytes(100_000))
    LocalStore(str(runs / "high")).put("rule-output/verdicts.jsonl", f"{no_issue().to_json()}\n".encode())
    for age, name in enumerate(("low", "high", "broken", "grave", "never")):  # the newest first
        begin = WALL_TIME - 1000 * age
        write_record(runs / name, RunRecord(("python", "train.py"), begin, begin + 100 + age, 0))
    with served(place) as running:
        yield running


def names_in(page: str) -> list[str]:
    return re.findall(r'<a href="/runs/([a-z]+)"', page)


@pytest.mark.parametrize(
    ("by", "order", "names"),
    [
        ("", "", ["low", "high", "broken", "grave", "never"]),
        ("run", ASCENDING, ["broken", "grave", "high", "low", "never"]),
        ("run", DESCENDING, ["never", "low", "high", "grave", "broken"]),
        ("started", ASCENDING, ["never", "grave", "broken", "high", "low"]),
        ("trained", DESCENDING, ["never", "grave", "broken", "high", "low"]),
        ("loss", ASCENDING, ["low", "high", "broken", "grave", "never"]),
        ("loss", DESCENDING, ["high", "low", "broken", "grave", "never"]),
    ],
)
def test_runs_stand_in_the_order_of_the_address_those_without_a_number_last(
    server: Served, by: str, order: str, names: list[str]
) -> None:
    page = server.page(f"/?{urlencode({'sort': by, 'order': order})}")
    assert names_in(page) == names
    assert re.findall(r'aria-sort="([a-z]+)"', page) == ([order] if order else [])


@pytest.mark.parametrize(("by", "first", "known"), [("worst", "grave", 2), ("storage", "low", 5)])
def test_the_gravest_and_the_largest_stand_at_an_end(server: Served, by: str, first: str, known: int) -> None:
    both = [names_in(server.page(f"/?sort={by}&order={order}")) for order in (DESCENDING, ASCENDING)]
    assert (both[0][0], both[1][known - 1]) == (first, first)


def test_heads_lead_to_the_other_order_and_keep_the_filter(server: Served) -> None:
    page = server.page("/?q=o&sort=loss&order=ascending")
    assert "/?q=o&amp;sort=loss&amp;order=descending" in page
    assert "/?q=o&amp;sort=worst&amp;order=descending" in page
    assert 'name="sort" value="loss"' in page.replace('type="hidden" ', "")


def test_each_row_has_its_loss_in_words_beside_the_curve(server: Served) -> None:
    page = server.page("/")
    rows = dict(zip(names_in(page), page.split("<tbody>")[1].split("<tr>")[1:], strict=False))
    assert "0.5" in rows["low"]
    assert f"<title>{LOSS}: 2 numbers up to step 1, 2 at first, 0.5 at last" in rows["low"]
    assert "⚠ nan" in rows["broken"]
    assert "not finite from step 1 on" in rows["broken"]
    assert all("no loss" in rows[name] and "<svg" not in rows[name] for name in ("grave", "never"))


def test_the_losses_of_evaluations_have_a_column_where_a_run_has_one(tmp_path: Path) -> None:
    runs = tmp_path / ".trackside/runs"
    for name, values in (("better", {1: 0.25}), ("worse", {1: 0.75}), ("without", {})):
        write_losses(runs / name, {0: 2.0, 1: 0.5})
        write_statistics(LocalStore(RunLocation(str(runs / name)).statistics), {LOSS: {"mean": values}}, mode="EVAL")
    with served(tmp_path) as running:
        page = running.page("/?sort=evaluation")
        assert "In evaluation" in page
        assert names_in(page) == ["better", "worse", "without"]
        rows = dict(zip(names_in(page), page.split("<tbody>")[1].split("<tr>")[1:], strict=False))
        assert "0.25" in rows["better"]
        assert rows["without"].count("<svg") == 1
        assert "In evaluation" not in running.page("/?q=without")
