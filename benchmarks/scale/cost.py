"""What a deployment costs: while nothing trains, and for each hundred training jobs.

    python -m benchmarks.scale.cost [--jobs 100] [--hours 8] [--mode per-job] [--rules 5] [--faulty 0.1]
                                    [--prices my-prices.json] [--poll-seconds 1] [--step-seconds 1] [--write]

Calls are counted by the simulation, resources in the synthesized templates. Prices are inputs (prices.json, each with
its source and the day on which it was read): put in those of your region. Free tiers are left out. `--write` puts
the tables into docs/costs.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.pages import put
from benchmarks.scale.design import MODES, deployed
from benchmarks.scale.quotas import Quotas
from benchmarks.scale.simulation import Load, Result, Simulation
from trackside.capture.writing.watermark import (
    REMOTE_FLUSH_SECONDS,
    SETTLED_REMOTE_FLUSH_SECONDS,
    SIGN_OF_LIFE_SECONDS,
    YOUNG_SECONDS,
)
from trackside.environment import FleetEnvironment
from trackside.evaluation.poll_interval import LONGEST_SECONDS, PollInterval
from trackside.trial.steps.watermarks import QUIET_SECONDS

PRICES = Path(__file__).with_name("prices.json")
PAGE = Path(__file__).parents[2] / "docs" / "costs.md"
HOUR, MONTH_HOURS = 3600.0, 730.0
MEMORY_GB = 0.25  # of every function: stacks/constructs/python_lambda.py
LOG_BYTES_A_CALL = 2_000  # of a function's log, with its metrics: assumed
# Lambda asks an empty queue again after 20 seconds at most, by five pollers (Lambda's and SQS's guides).
POLLERS, POLL_SECONDS = 5, 20.0
WORKER_VCPU, WORKER_GB = 1.0, 4.0  # of a Fargate task that judges eight runs: assumed
# Of a month of one idle worker: its own log, and the events in which Container Insights measures. Assumed.
FLEET_LOG_GB, FLEET_METRICS = 1.0, 20.0


@dataclass(frozen=True)
class Line:
    """One line of a bill: `number` of something at `usd` each."""

    what: str
    number: float
    usd: float

    @property
    def total(self) -> float:
        return self.number * self.usd


def read_prices(file: Path = PRICES) -> Mapping[str, float]:
    """By name. Errors: `OSError`, `KeyError`."""
    return {name: float(each["usd"]) for name, each in json.loads(file.read_text(encoding="utf-8"))["prices"].items()}


def lines_of(
    result: Result, prices: Mapping[str, float], *, poll_seconds: float = 1.0, step_seconds: float = 1.0
) -> list[Line]:
    """The bill of all jobs of a simulation."""
    counts, calls = result.counts, Counter[str]()
    for name, number in counts.items():
        if name.startswith("invocations "):
            calls["invocations"] += number
    seconds = sum(result.function_seconds.values())
    judged_hours = result.evaluator_seconds / HOUR
    verdicts = sum(each.verdict_at is not None for each in result.trainings)
    job_hours = sum(((each.ended_at or each.ends_at) - each.created_at) / HOUR for each in result.trainings)
    young_hours = min(len(result.trainings) * YOUNG_SECONDS / HOUR, job_hours)
    young_share = young_hours / job_hours
    young, settled = (
        requests_an_hour(step_seconds=step_seconds, poll_seconds=poll_seconds, flush_seconds=each)
        for each in (REMOTE_FLUSH_SECONDS, SETTLED_REMOTE_FLUSH_SECONDS)
    )
    marks = young.marks * young_hours + settled.marks * (job_hours - young_hours)
    puts = young.puts * young_hours + settled.puts * (job_hours - young_hours)
    gets = (young.gets * young_share + settled.gets * (1 - young_share)) * judged_hours
    if result.mode == "fleet":  # S3 tells of each watermark, and somebody looks then; else hardly ever
        gets = result.evaluator_seconds / FleetEnvironment.slow_poll_seconds + 2 * marks
        calls["invocations"] += round(marks)  # of note_news
    if result.mode == "fleet":
        hours = result.worker_seconds / HOUR
        judges = [
            Line("workers of the fleet, vCPU hours", hours * WORKER_VCPU, prices["fargate_vcpu_hour"]),
            Line("workers of the fleet, GB hours", hours * WORKER_GB, prices["fargate_gb_hour"]),
        ]
    else:
        judges = [Line("processing jobs, instance hours", judged_hours, prices["processing_instance_hour"])]
    return [
        *judges,
        Line("S3: looks for new steps, and what is new (GET)", gets, prices["s3_get"]),
        Line("S3: what is captured, and watermarks (PUT)", puts, prices["s3_list_or_put"]),
        Line("functions, calls", calls["invocations"], prices["lambda_request"]),
        Line("functions, GB seconds", seconds * MEMORY_GB, prices["lambda_gb_second"]),
        Line("logs of functions, GB", calls["invocations"] * LOG_BYTES_A_CALL / 1e9, prices["log_gb"]),
        Line("queues, calls", counts["call SQS"], prices["sqs_request"]),
        Line("DynamoDB, writes", counts["call dynamodb_write"], prices["dynamodb_write"]),
        Line("DynamoDB, reads", counts["call dynamodb_read"], prices["dynamodb_read"]),
        Line("events of ours", verdicts * 4, prices["event"]),
        Line("messages", result.mails, prices["sns_request"]),
    ]


@dataclass(frozen=True)
class Requests:
    """What one training and its evaluator ask of S3 in an hour: watermarks that are stored, all PUTs, all GETs."""

    marks: int
    puts: int
    gets: int


def requests_an_hour(*, step_seconds: float, poll_seconds: float, flush_seconds: float) -> Requests:
    """Play an hour of equal steps of which statistics are recorded, as tests/training_lib/trial counts it look by look.

    A flush stores a segment and the watermark; a look asks for the watermark, and for the segment where that is new.
    While nothing is new for `QUIET_SECONDS`, a look also asks for the end of the run.
    """
    between = max(step_seconds, flush_seconds)
    flushes = int(HOUR / between)
    signs_of_life = flushes * int(between / SIGN_OF_LIFE_SECONDS)
    interval = PollInterval(shortest_seconds=poll_seconds, longest_seconds=LONGEST_SECONDS, now=0.0)
    now = gets = seen = 0.0
    while now < HOUR:
        gets += 1
        intervals = now // between
        if intervals > seen:
            gets += 1
            seen = intervals
            interval.note_new_steps(now)
        elif now - seen * between >= QUIET_SECONDS:
            gets += 1
        now += interval.pause_seconds(now)
    return Requests(flushes + signs_of_life, 2 * flushes + signs_of_life, int(gets))


def idle_lines(resources: Mapping[str, Mapping[str, Any]], prices: Mapping[str, float], *, sweeps: int) -> list[Line]:
    """A month in which nothing trains: `resources` of all templates, `sweeps` of reconcile in a month."""
    kinds = Counter(str(body["Type"]) for body in resources.values())
    own = {
        (body["Properties"]["Namespace"], body["Properties"]["MetricName"])
        for body in resources.values()
        if body["Type"] == "AWS::CloudWatch::Alarm" and body["Properties"]["Namespace"].startswith("Trackside")
    }
    sources = kinds["AWS::Lambda::EventSourceMapping"]
    looks = sources * POLLERS * MONTH_HOURS * HOUR / POLL_SECONDS
    # Those of the sweeps have data while nothing trains: Sweeps, WatchedJobs, SilentEvaluators.
    metrics = sum(name in ("SilentEvaluators", "Sweeps") for _, name in own) + 1
    return [
        Line("keys", kinds["AWS::KMS::Key"], prices["key_month"]),
        Line("alarms", kinds["AWS::CloudWatch::Alarm"], prices["alarm_month"]),
        Line("dashboards", kinds["AWS::CloudWatch::Dashboard"], prices["dashboard_month"]),
        Line("metrics of the sweeps", metrics, prices["metric_month"]),
        Line("looks into empty queues", looks, prices["sqs_request"]),
        Line("sweeps, calls", sweeps, prices["lambda_request"]),
        Line("sweeps, GB seconds", sweeps * 1.0 * MEMORY_GB, prices["lambda_gb_second"]),
        *_idle_fleet(resources, prices),
    ]


def _idle_fleet(resources: Mapping[str, Mapping[str, Any]], prices: Mapping[str, float]) -> Iterator[Line]:
    """Yield what the mode `fleet` costs a month while nothing trains: its network, the least workers, their logs."""

    def properties(kind: str) -> list[Mapping[str, Any]]:
        return [body["Properties"] for body in resources.values() if body["Type"] == kind]

    endpoints = [each for each in properties("AWS::EC2::VPCEndpoint") if each.get("VpcEndpointType") == "Interface"]
    zones = sum(len(each["SubnetIds"]) for each in endpoints)
    if zones:
        yield Line("endpoints of the fleet, zone hours", zones * MONTH_HOURS, prices["endpoint_zone_hour"])
    for scaling in properties("AWS::ApplicationAutoScaling::ScalableTarget"):
        (task,) = properties("AWS::ECS::TaskDefinition")
        hours = int(scaling["MinCapacity"]) * MONTH_HOURS
        vcpu, memory_gb = int(task["Cpu"]) / 1024, int(task["Memory"]) / 1024
        yield Line("workers that always run, vCPU hours", hours * vcpu, prices["fargate_vcpu_hour"])
        yield Line("workers that always run, GB hours", hours * memory_gb, prices["fargate_gb_hour"])
        yield Line("logs of the fleet and of Container Insights, GB", FLEET_LOG_GB, prices["log_gb"])
        yield Line("metrics of the fleet and of Container Insights", FLEET_METRICS, prices["metric_month"])


def table(lines: Sequence[Line]) -> str:
    """As markdown, with the sum."""
    rows = [f"| {line.what} | {_number(line.number)} | {line.usd:.10g} | {line.total:,.2f} |" for line in lines]
    total = sum(line.total for line in lines)
    return "\n".join(
        ["| | number | USD each | USD |", "|---|---:|---:|---:|", *rows, f"| **together** | | | **{total:,.2f}** |"]
    )


def deployed_resources(context: Mapping[str, str] | None = None) -> dict[str, Mapping[str, Any]]:
    """Of all templates, which are synthesized if none lie ready."""
    from stacks.assembly import assembly

    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(assembly(context).glob("*.template.json")):
        for name, body in json.loads(path.read_text(encoding="utf-8"))["Resources"].items():
            found[f"{path.name}/{name}"] = body
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    idle, *costs = _report(options)
    for name, content in (("idle", idle), ("costs", "\n".join(costs))):
        put(content, PAGE if options.write else None, begin=f"<!-- {name} -->", end=f"<!-- /{name} -->")
    return 0


def _report(options: argparse.Namespace) -> Iterator[str]:
    prices = read_prices(options.prices)
    design = deployed()
    minutes = design.settings.monitoring.reconcile_minutes
    idle = [idle_table(prices, minutes, context) for context in ({}, {"trackside:evaluator_mode": "fleet"})]
    yield f"{idle[0]}\n\nWith `evaluator_mode=fleet`, in a network of its own:\n\n{idle[1]}\n"
    for mode in MODES if options.mode == "all" else (options.mode,):
        load = Load("cost", options.jobs, hours=options.hours, faulty=options.faulty, rules=options.rules)
        result = Simulation(load, mode=mode, design=design, quotas=Quotas()).run()
        lines = lines_of(result, prices, poll_seconds=options.poll_seconds, step_seconds=options.step_seconds)
        yield f"**{options.jobs} jobs of {options.hours:g} hours, {mode}**\n\n{table(lines)}\n"


def idle_table(prices: Mapping[str, float], reconcile_minutes: int, context: Mapping[str, str]) -> str:
    """Of the deployment that stands in cdk.json, with `context` laid over it."""
    sweeps = round(MONTH_HOURS * 60 / reconcile_minutes)
    return table(idle_lines(deployed_resources(context), prices, sweeps=sweeps))


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.3g}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.cost", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--faulty", type=float, default=0.1, help="share of jobs that go wrong")
    parser.add_argument("--mode", choices=("all", *MODES), default="all", help="of the evaluator")
    parser.add_argument("--rules", type=int, default=5, help="of each job, one processing job each in per-rule mode")
    parser.add_argument("--poll-seconds", type=float, default=1.0, help="how often an evaluator looks for steps")
    parser.add_argument("--step-seconds", type=float, default=1.0, help="how long a step of the trainings takes")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("--prices", type=Path, default=PRICES)
    options = parser.parse_args(arguments)
    if not options.prices.is_file():
        parser.error(f"There is no file {options.prices}. Copy {PRICES}, and write your prices into it.")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
