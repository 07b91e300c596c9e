"""The simulation at scale: every job is judged or named, none judged or stopped twice, and it is what is deployed."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.scale import __main__ as command
from benchmarks.scale.chart import chart
from benchmarks.scale.clock import Clock, Process
from benchmarks.scale.cost import PRICES, Line, idle_lines, read_prices, table
from benchmarks.scale.cost import main as cost_command
from benchmarks.scale.design import MODES, Design, QueueDesign, before, deployed
from benchmarks.scale.figures import figures_of
from benchmarks.scale.quotas import Quotas
from benchmarks.scale.services import Limit, Patience, spread
from benchmarks.scale.simulation import Load, Result, Simulation, named_as_lost
from stacks.assembly import assembly

ROOT = Path(__file__).parents[2]
PRICE_LIST = dict(read_prices())
# Far worse than AWS: one event in five is lost, one in three comes twice.
STORMY = Quotas(event_loss=0.2, event_twice=0.3)


def simulated(
    load: Load, mode: str = "per-job", design: Design | None = None, quotas: Quotas | None = None, seed: int = 1
) -> Result:
    return Simulation(load, mode=mode, design=design or deployed(), quotas=quotas or Quotas(), seed=seed).run()


def without_budget(design: Design) -> Design:
    stops = dataclasses.replace(design.settings.stops, stops_per_hour=0)
    return dataclasses.replace(design, settings=dataclasses.replace(design.settings, stops=stops))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("load", command.LOADS)
def test_a_hundred_jobs_are_all_judged_and_only_broken_ones_stopped(load: str, mode: str) -> None:
    figures = figures_of(simulated(command.load_of(load, 100), mode), PRICE_LIST)
    assert (figures.unjudged, figures.unfinished, figures.unnamed, figures.wrong) == (0, 0, 0, 0)
    assert figures.verdicts == figures.faulty > 5
    if load != "mass stop":
        assert figures.stopped == figures.faulty


@pytest.mark.parametrize("seed", [pytest.param(seed, id=f"seed {seed}") for seed in range(6)])
@pytest.mark.parametrize("mode", MODES)
def test_whatever_the_bus_does_each_job_is_judged_once_or_named(mode: str, seed: int) -> None:
    result = simulated(Load("storm", 40, hours=3, faulty=0.3), mode, quotas=STORMY, seed=seed)
    lost = {name for name, _ in named_as_lost(result)}
    judges = 5 if mode == "per-rule" else 1
    for training in result.trainings:
        assert len(training.evaluators) <= judges
        assert training.judged_at is not None or training.job.name in lost
        assert training.stopped_at is None or training.is_faulty
        if training.fault_seen_at is not None:
            assert training.stopped_at is not None or training.ended_at is not None
    assert result.counts["events lost"] > 20


def test_equal_seeds_give_equal_results_and_others_others() -> None:
    load = Load("steady", 60, hours=2)
    one, same, other = (figures_of(simulated(load, seed=seed), PRICE_LIST) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_no_hour_has_more_stops_than_the_budget() -> None:
    result = simulated(Load("mass stop", 80, faulty=1.0, together=True))
    stopped = [each.stopped_at for each in result.trainings if each.stopped_at is not None]
    hours = Counter(datetime.fromtimestamp(at, tz=timezone.utc).strftime("%d %H") for at in stopped)
    assert len(stopped) == 80
    assert max(hours.values()) <= deployed().settings.stops.stops_per_hour
    assert len(hours) >= 4
    assert result.mails == 80 + 3 + 0, "one for each finding, one for each hour in which the budget was used up"


def test_a_mass_stop_ended_as_dead_letters_and_does_no_more() -> None:
    load = Load("mass stop", 300, faulty=1.0, together=True)
    then, now = (simulated(load, "fleet", without_budget(each)) for each in (before(), deployed()))
    assert len(then.queues["stop_training"].dead) > 50
    assert [each.stopped_at for each in now.trainings if each.stopped_at is None] == []
    assert now.queues["stop_training"].dead == []
    assert now.counts["throttled StopTrainingJob"] < then.counts["throttled StopTrainingJob"] / 3


def test_too_few_instances_are_named_in_dead_letters() -> None:
    result = simulated(Load("steady", 60, hours=2), quotas=Quotas(processing_instances=4))
    lost = {name for name, _ in named_as_lost(result)}
    unjudged = {each.job.name for each in result.trainings if each.judged_at is None}
    assert len(unjudged) > 20
    assert unjudged <= lost
    assert result.counts["refused ResourceLimitExceeded"] > 100
    assert command.held_back_by(figures_of(result, PRICE_LIST)) == "processing instances"


@pytest.mark.parametrize(
    ("most_pages", "are_found"),
    [pytest.param(100, True, id="a sweep that lists all"), pytest.param(1, False, id="one that lists the newest")],
)
def test_ends_that_no_event_told_are_found_among_all_that_are_listed(most_pages: int, are_found: bool) -> None:
    """A job a minute, so some 150 run at a time; a sweep of one page looks at the newest hundred only."""
    design = dataclasses.replace(deployed(), reconcile_most_pages=most_pages)
    result = simulated(Load("steady", 300, hours=2.5, faulty=0.0, starts_a_second=1 / 60), "fleet", design, STORMY)
    at_most = 9000 + 20 * 60  # after the job's end, three sweeps
    late = [
        each for each in result.trainings if each.finished_at is None or each.finished_at - each.created_at > at_most
    ]
    assert (late == []) is are_found


# The parts ------------------------------------------------------------------------------------------------------------


def test_time_passes_in_order() -> None:
    clock, seen = Clock(100.0), list[str]()

    def walk(name: str, seconds: float) -> Process:
        for _ in range(2):
            yield seconds
            seen.append(f"{name} {clock.now:g}")

    clock.start(walk("slow", 5))
    clock.start(walk("quick", 2))
    clock.after(5, lambda: seen.append("later"))
    clock.run(until=107)
    assert seen == ["quick 102", "quick 104", "slow 105", "later"]
    assert clock.now == 105


def test_a_limit_lets_a_burst_through_and_then_its_rate() -> None:
    clock = Clock(0.0)
    limit = Limit(2.0, clock)
    assert [limit.allows() for _ in range(6)] == [True] * 4 + [False] * 2
    allowed = 0
    for _ in range(100):
        clock.now += 0.1
        allowed += limit.allows()
    assert 19 <= allowed <= 21


def test_a_client_that_was_throttled_slows_down_and_comes_back() -> None:
    clock = Clock(0.0)
    patience = Patience(clock)
    waits = []
    for number in range(40):
        waits.append(patience.seconds_to_wait())
        clock.now += waits[-1] + 0.1
        patience.saw(throttled=5 <= number < 10)
    assert waits[:5] == [0.0] * 5
    assert max(waits[5:12]) > 0.5
    assert waits[-1] < max(waits)


def test_spread_of_nothing_is_no_number() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"p50": 2.0, "p95": 3.0, "max": 3.0}
    assert all(value != value for value in spread([]).values())  # noqa: PLR0124  which is what NaN means


# What is simulated is what is deployed --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resources() -> Mapping[str, Any]:
    """Of the deployment that cdk.json describes."""
    found: dict[str, Any] = {}
    for path in assembly().glob("*.template.json"):
        found |= json.loads(path.read_text())["Resources"]
    return found


def test_queues_are_simulated_as_they_are_deployed(resources: Mapping[str, Any]) -> None:
    functions = {
        name: body["Properties"] for name, body in resources.items() if body["Type"] == "AWS::Lambda::Function"
    }
    queues = {name: body["Properties"] for name, body in resources.items() if body["Type"] == "AWS::SQS::Queue"}
    sources = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::Lambda::EventSourceMapping"]
    seen = {}
    for source in sources:
        function = functions[source["FunctionName"]["Ref"]]
        queue = queues[source["EventSourceArn"]["Fn::GetAtt"][0]]
        design = QueueDesign(
            batch_size=source["BatchSize"],
            most_at_once=source.get("ScalingConfig", {}).get("MaximumConcurrency"),
            timeout_seconds=float(function["Timeout"]),
            attempts=queue["RedrivePolicy"]["maxReceiveCount"],
        )
        assert queue["VisibilityTimeout"] == design.visibility_seconds
        seen[function["Handler"].split(".")[1]] = design
    simulated_names = set(Simulation(Load("one", 1), mode="per-job", design=deployed(), quotas=Quotas()).queues)
    assert simulated_names <= set(seen)
    assert {name: seen[name] for name in simulated_names} == {name: deployed().queue(name) for name in simulated_names}


# Costs, charts, pages -------------------------------------------------------------------------------------------------


def test_every_price_has_its_source_and_the_day_on_which_it_was_read() -> None:
    for name, price in json.loads(PRICES.read_text())["prices"].items():
        assert price["usd"] > 0, name
        assert price["source"].startswith("https://"), name
        assert "2026-" in price["seen"], name


def test_a_month_of_nothing_is_counted_in_the_templates(resources: Mapping[str, Any]) -> None:
    lines = {line.what: line for line in idle_lines(resources, PRICE_LIST, sweeps=100)}
    alarms = [body for body in resources.values() if body["Type"] == "AWS::CloudWatch::Alarm"]
    assert lines["alarms"].number == len(alarms)
    assert (lines["keys"].number, lines["dashboards"].number) == (1, 0)
    assert not any("fleet" in what for what in lines)
    one_more = {**resources, "another": {"Type": "AWS::KMS::Key", "Properties": {}}}
    assert {line.what: line for line in idle_lines(one_more, PRICE_LIST, sweeps=100)}["keys"].number == 2


def test_prices_that_are_not_there_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cost_command(["--prices", "no-such.json"])
    assert "There is no file no-such.json. Copy" in capsys.readouterr().err


def test_a_bill_adds_up() -> None:
    assert table([Line("keys", 2, 1.0), Line("calls", 1e6, 1e-6)]).endswith("| **together** | | | **3.00** |")


def test_more_hours_and_more_rules_cost_more() -> None:
    def cost(mode: str, **load: Any) -> float:
        return figures_of(simulated(Load("cost", 20, **load), mode), PRICE_LIST).cost_of_100_jobs

    assert cost("per-job", hours=4.0) > 1.8 * cost("per-job", hours=2.0)
    # Five times the evaluators and their looks; what is captured costs the same.
    assert cost("per-rule", hours=2.0, rules=5) > 3 * cost("per-job", hours=2.0)


def test_a_chart_is_whole_and_has_both_faces() -> None:
    series = {"a": [(100, 5.0), (1000, 50.0)], "b & c": [(100, 0.0), (1000, 51.0)]}
    text = chart("Title <1>", x_label="jobs", y_label="seconds", series=series, summary="It grows.")
    root = ElementTree.fromstring(text)  # noqa: S314 - our own text
    assert root.get("role") == "img"
    assert "It grows." in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("<polyline") == 2
    assert "nan" not in text


@pytest.mark.parametrize(
    ("page", "names"),
    [
        pytest.param("scale.md", {"all", "conservation", "before", "rates", "instances"}, id="scale"),
        pytest.param("costs.md", {"idle", "costs"}, id="costs"),
    ],
)
def test_the_pages_tables_are_filled_in(page: str, names: set[str]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in names:
        content = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
        assert content.count("\n|") > 3, name
