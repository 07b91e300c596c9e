"""Workers of the fleet that are killed at random moments: is every run still judged, and each verdict said once?

    .venv/bin/python benchmarks/fleet_kills.py [--workers 4] [--runs 24] [--rounds 3] [--seed 1]

In each round a local account (`trackside_localaccount`) holds a table of leases and `--runs` runs in S3, half
of them complete, half of them still being written. `--workers` processes of the evaluator's container share them; half
of the workers are killed with SIGKILL at moments drawn from the seed, while they judge, and others take their place
(`--no-replacement`: nobody does). Afterwards each run's `verdicts.jsonl` is compared with that of one evaluator that
nobody disturbed: lost, double and different verdicts are counted.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trackside.contracts.deployment.lease import OPEN_INDEX, LeaseRecord, LeaseState
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_OUTPUT, RULE_REQUEST_KEY, TENSORS, VERDICTS_KEY, RunLocation
from trackside.environment import inherited
from trackside.evaluation.__main__ import main as judge_undisturbed
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside_localaccount.server import LocalAccount

ENTRY_POINT = Path(__file__).parents[1] / "rule_containers" / "evaluator" / "entrypoint.py"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job"
BUCKET, TABLE = "runs", "leases"
LEASE_SECONDS = 8.0
STEPS = 12
MOST_SECONDS = 300.0
RULES = ("exploding-tensor", "vanishing-gradient", "loss-not-decreasing", "dead-relu")
REQUEST = RuleRequest(tuple(RuleConfiguration(rule) for rule in RULES))


@dataclass
class Outcome:
    """What became of one round. `double`, `lost` and `different` name verdicts, `unfinished` runs."""

    verdicts: int = 0
    leases: int = 0
    kills: int = 0
    seconds: float = 0.0
    double: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next")
    parser.add_argument("--no-replacement", action="store_true", help="nobody takes the place of a killed worker")
    options = parser.parse_args()
    print("seed workers killed runs leases verdicts double lost different unfinished seconds")
    for seed in range(options.seed, options.seed + options.rounds):
        found = play(workers=options.workers, runs=options.runs, seed=seed, replace=not options.no_replacement)
        wrong = f"{len(found.double):6} {len(found.lost):4} {len(found.different):9} {len(found.unfinished):10}"
        done = f"{seed:4} {options.workers:7} {found.kills:6} {options.runs:4} {found.leases:6} {found.verdicts:8}"
        print(f"{done} {wrong} {found.seconds:7.1f}", flush=True)


def play(*, workers: int, runs: int, seed: int, replace: bool = True, window_seconds: float = 6.0) -> Outcome:
    """One round. Half of the workers are killed within `window_seconds` of the first lease."""
    chance = random.Random(seed)  # noqa: S311  it draws moments, no secrets
    with LocalAccount() as account, tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(account, Path(folder))
        jobs = fleet.open_runs(runs, chance)
        began = time.monotonic()
        fleet.start(workers)
        _until(lambda: fleet.is_alive and any(record.owner for record in fleet.records()), "a worker has begun")
        outcome = Outcome(kills=workers // 2)
        moments = sorted(chance.uniform(0, window_seconds) for _ in range(outcome.kills))
        for pause in (moment - before for before, moment in zip([0.0, *moments], moments, strict=False)):
            time.sleep(pause)
            fleet.kill_one(chance)
            if replace:
                fleet.start(1)
        try:
            _until(lambda: fleet.is_alive and not any(record.is_open for record in fleet.records()), "all are judged")
        except TimeoutError:
            outcome.unfinished = [record.job.name for record in fleet.records() if record.is_open]
        outcome.seconds = time.monotonic() - began
        fleet.close()
        for record in fleet.records():
            outcome.leases += record.token
            if record.state is LeaseState.FAILED:
                outcome.unfinished.append(f"{record.job.name}: {record.reason}")
        for job in jobs:
            _compare(job.name, fleet, outcome)
        return outcome


class Fleet:
    """An account with a table of leases, runs in a bucket, and workers as processes."""

    def __init__(self, account: LocalAccount, folder: Path) -> None:
        self._account, self._folder = account, folder
        self._s3, self._dynamodb = account.client("s3"), account.client("dynamodb")
        self._s3.create_bucket(Bucket=BUCKET)
        create_lease_table(self._dynamodb, TABLE)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._writers: list[threading.Thread] = []

    def open_runs(self, count: int, chance: random.Random) -> list[TrainingJob]:
        """Every other one is still being written. A third has a fault."""
        jobs = []
        for number in range(count):
            job = TrainingJob(f"run-{number:02}", f"{ARN}/run-{number:02}")
            store = LocalStore(self._folder / job.name / TENSORS)
            LocalStore(self._folder / job.name).put(RULE_REQUEST_KEY, REQUEST.to_json().encode())
            write_run(store, fault_at=chance.randrange(2, STEPS) if number % 3 == 0 else None)
            keys = sorted(LocalStore(self._folder / job.name).list(), key=_order_of_writing)
            if number % 2:
                writer = threading.Thread(target=self._upload, args=(job.name, keys, chance.uniform(0.05, 0.25)))
                writer.start()
                self._writers.append(writer)
            else:
                self._upload(job.name, keys, 0.0)
            record = LeaseRecord(job, f"s3://{BUCKET}/{job.name}", free_at=time.time())
            self._dynamodb.put_item(TableName=TABLE, Item=record.to_item())
            jobs.append(job)
        return jobs

    def start(self, count: int) -> None:
        """So many workers more."""
        variables = {
            "TRACKSIDE_FLEET_TABLE": TABLE,
            "TRACKSIDE_FLEET_RUNS": "3",
            "TRACKSIDE_FLEET_LEASE_SECONDS": str(LEASE_SECONDS),
            "TRACKSIDE_FLEET_LOOK_SECONDS": "0.5",
            "TRACKSIDE_POLL_SECONDS": "0.2",
            "OMP_NUM_THREADS": "1",
        }
        environment = {**inherited(), **self._account.environment(), **variables}
        for _ in range(count):
            command = [sys.executable, str(ENTRY_POINT)]
            with (self._folder / f"worker-{len(self._workers)}.log").open("wb") as log:
                self._workers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    @property
    def is_alive(self) -> bool:
        """Errors: `RuntimeError` if a worker ended unasked."""
        ended = [worker for worker in self._workers if worker.poll() not in (None, -signal.SIGKILL)]
        if ended:
            raise RuntimeError(f"A worker ended by itself:\n{self.logs()[-2000:]}")
        return True

    def kill_one(self, chance: random.Random) -> None:
        """SIGKILL to a worker that is alive; its judging processes are left to notice."""
        alive = [worker for worker in self._workers if worker.poll() is None]
        worker = chance.choice(alive)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def records(self) -> list[LeaseRecord]:
        """All leases."""
        return [LeaseRecord.from_item(item) for item in self._dynamodb.scan(TableName=TABLE)["Items"]]

    def close(self) -> None:
        """Ends the workers as ECS does."""
        for writer in self._writers:
            writer.join()
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(30)

    def logs(self) -> str:
        """What all workers said."""
        return "".join(file.read_text(errors="replace") for file in sorted(self._folder.glob("worker-*.log")))

    def stored_verdicts(self, name: str) -> list[dict[str, Any]]:
        """The verdicts of a run, as the workers wrote them."""
        try:
            body = self._s3.get_object(Bucket=BUCKET, Key=f"{name}/{RULE_OUTPUT}/{VERDICTS_KEY}")["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return []
        return [json.loads(line) for line in body.splitlines()]

    def verdicts_undisturbed(self, name: str) -> list[dict[str, Any]]:
        """The verdicts of the same run by one evaluator."""
        run = RunLocation(str(self._folder / name))
        assert judge_undisturbed(["--run", run.uri, "--poll-seconds", "0.01"]) == 0
        return [json.loads(line) for line in LocalStore(run.rule_output).get(VERDICTS_KEY).splitlines()]

    def _upload(self, name: str, keys: list[str], pause_seconds: float) -> None:
        source = LocalStore(self._folder / name)
        for key in keys:
            self._s3.put_object(Bucket=BUCKET, Key=f"{name}/{key}", Body=source.get(key))
            if pause_seconds and "index/" in key:
                time.sleep(pause_seconds)


def write_run(store: LocalStore, *, fault_at: int | None) -> None:
    """Twelve steps of a loss that falls, two gradients and an activation; from `fault_at` on a gradient is infinite."""
    chance = np.random.default_rng(fault_at or 0)
    write_collections(store)
    for step in range(STEPS):
        gradient = np.inf if fault_at is not None and step >= fault_at else 0.1
        values = {
            "CrossEntropyLoss_output_0": 2.0 * 0.9**step,
            "gradient/Net_fc1.weight": np.full(4, gradient),
            "gradient/Net_fc2.weight": chance.normal(size=4),
        }
        write_tensors(store, step, values)
    end_run(store)


def create_lease_table(dynamodb: Any, name: str) -> None:
    """As the stack makes it."""
    dynamodb.create_table(
        TableName=name,
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": kind}
            for attribute, kind in (("pk", "S"), ("shelf", "S"), ("free_at", "N"))
        ],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": OPEN_INDEX,
                "KeySchema": [
                    {"AttributeName": "shelf", "KeyType": "HASH"},
                    {"AttributeName": "free_at", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def _compare(name: str, fleet: Fleet, outcome: Outcome) -> None:
    verdicts, expected = fleet.stored_verdicts(name), {each["id"]: each for each in fleet.verdicts_undisturbed(name)}
    outcome.verdicts += len(verdicts)
    outcome.double += [each for each, count in Counter(each["id"] for each in verdicts).items() if count > 1]
    outcome.lost += sorted(expected.keys() - {each["id"] for each in verdicts})
    for each in verdicts:
        known = expected.get(each["id"])
        if known is None or any(each[word] != known[word] for word in ("outcome", "step", "since_step", "message")):
            outcome.different.append(each["id"])


def _order_of_writing(key: str) -> tuple[int, int, str]:
    """The request and collections first, then step by step, each index after its events, the end marker last."""
    step = next((int(part[:12]) for part in reversed(key.split("/")) if part[:12].isdigit() and "_" in part), -1)
    if key.endswith("training_job_end.ts"):
        return 2**62, 0, key
    return step, "/index/" in key, key


def _until(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {MOST_SECONDS} s: {what}")
        time.sleep(0.2)  # a look reads the whole table, and takes time from those that are looked at


if __name__ == "__main__":
    main()
