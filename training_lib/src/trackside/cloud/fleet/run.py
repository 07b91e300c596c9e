"""The process of a worker: the evaluator's container, if its environment names a table of leases."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TextIO

from trackside.aws_clients import SharedClient
from trackside.cloud.fleet.inbox import Inbox
from trackside.cloud.fleet.judging import Judging
from trackside.cloud.fleet.leases import Leases, LeaseTerms
from trackside.cloud.fleet.worker import Load, Worker, WorkerSettings
from trackside.contracts.deployment.metrics import (
    FLEET_DIMENSION,
    FLEET_NAMESPACE,
    JUDGED_RUNS,
    LOAD,
    LONGEST_WAIT,
    WAITING_RUNS,
)
from trackside.environment import FleetEnvironment
from trackside.evaluation.stop_signal import StopSignal


def run_worker(environment: FleetEnvironment, *, command: Sequence[str]) -> int:
    """Work until SIGTERM. Return the exit code. `command` judges the one run that its environment names."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    # One thread does all: while a service hangs, the leases of the others must not run out.
    leases, queue = (
        SharedClient(service, connect_seconds=2, read_seconds=5, attempts=2).get() for service in ("dynamodb", "sqs")
    )
    owner = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    terms = LeaseTerms(environment.lease_seconds, environment.lease_seconds / 4)
    worker = Worker(
        Leases(leases, environment.table, owner=owner, terms=terms),
        Inbox(queue, queue_url=environment.queue_url, failed_queue_url=environment.failed_queue_url),
        lambda lease: Judging(
            lease,
            command,
            poll_seconds=environment.slow_poll_seconds if environment.news_seconds else None,
            most_memory_bytes=environment.most_memory_bytes,
        ),
        WorkerSettings(
            runs=environment.runs,
            look_seconds=environment.look_seconds,
            news_seconds=environment.news_seconds,
            grace_seconds=environment.grace_seconds,
            back_off_seconds=environment.lease_seconds / 2,
            silent_seconds=environment.silent_seconds,
            most_memory_bytes=environment.most_memory_bytes,
        ),
        clock=time.time,
    )
    with StopSignal() as stop:
        worker.work(
            should_stop=lambda: stop.is_set,
            sleep=stop.sleep,
            report=metric_reporter(sys.stdout, fleet=environment.event_bus, clock=time.time),
        )
    return 0


def metric_reporter(stream: TextIO, *, fleet: str, clock: Callable[[], float]) -> Callable[[Load], None]:
    """Return a function that writes a worker's load as a line that CloudWatch Logs reads as metrics.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """
    units = {LOAD: "Percent", JUDGED_RUNS: "Count", WAITING_RUNS: "Count", LONGEST_WAIT: "Seconds"}

    def report(load: Load) -> None:
        values = {
            FLEET_DIMENSION: fleet,
            LOAD: 100 * load.judged / load.room,
            JUDGED_RUNS: load.judged,
            WAITING_RUNS: load.waiting,
            LONGEST_WAIT: round(load.longest_wait_seconds, 1),
        }
        metrics = [{"Name": name, "Unit": unit} for name, unit in units.items()]
        directive = {"Namespace": FLEET_NAMESPACE, "Dimensions": [[FLEET_DIMENSION]], "Metrics": metrics}
        about = {"Timestamp": round(clock() * 1000), "CloudWatchMetrics": [directive]}
        stream.write(json.dumps({"_aws": about, **values}) + "\n")
        stream.flush()

    return report
