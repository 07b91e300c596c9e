"""The same question with nothing simulated but the account: deployed functions in processes of their own, which die.

    python -m benchmarks.faults.real --events 200 --seed 1

Jobs are real processes, deliveries are doubled, late and lost, calls are refused and their callers killed. At the end
the faults are switched off, dead letters are redriven by the command that operators have, and what came of each job is
compared with what must.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.faults.cases import ALL, Reported, verdict_event
from stacks.assembly import assembly
from trackside.cloud.redelivery import Redelivery
from trackside_localaccount.deploy import deploy
from trackside_localaccount.faults import Faults
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.server import LocalAccount

STORM = Faults(
    duplicate=0.3,
    delay_seconds=2,
    throttle=0.03,
    crash_before=0.004,
    crash_after=0.004,
    redeliver=0.03,
)
LONGEST_SECONDS = 420.0
# What is asked for when the second of a job's rules finds an issue; the first is always clean.
KINDS: Sequence[tuple[str, ...] | None] = (ALL, ("Notify",), ("PublishMetric",), None)


@dataclass(frozen=True)
class Result:
    """`wrong`, `lost` and `repeated` as in `play.Result`."""

    events: int
    jobs: int
    faults: Mapping[str, int]
    redriven: int
    wrong: tuple[str, ...]
    lost: tuple[str, ...]
    repeated: int
    seconds: float


def play_real(folder: Path, faults: Faults, *, events: int) -> Result:
    """`folder`: a cloud assembly."""
    begun = time.monotonic()
    with LocalAccount(stop_grace_seconds=2, retry_seconds=1.0) as account:
        outputs = {name: value for outputs in deploy(folder, account).values() for name, value in outputs.items()}
        inbox = create_inbox(account, "inbox", outputs["IssueTopicArn"])
        account.register_image("training", ["sleep", "1000"])
        role = create_role(account, "training")
        jobs = [_train(account, number, role) for number in range(-(-events // 4))]
        account.faults.set(faults)
        sent = 0
        for number, arn in enumerate(jobs):
            sent += _put_events(account, outputs["EventBusName"], number, arn, last=events - sent)
        redriven = _settle(account, outputs)
        mails = _mails(account, inbox)
        wrong, lost, twice = _compare(account, jobs, mails)
        return Result(sent, len(jobs), account.faults.counts, redriven, wrong, lost, twice, time.monotonic() - begun)


def _train(account: LocalAccount, number: int, role: str) -> str:
    answer = account.client("sagemaker").create_training_job(
        TrainingJobName=_name(number),
        AlgorithmSpecification={"TrainingImage": "training", "TrainingInputMode": "File"},
        RoleArn=role,
        OutputDataConfig={"S3OutputPath": "s3://anywhere"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        Tags=[{"Key": "trackside:actions", "Value": "StopTraining"}],
    )
    return str(answer["TrainingJobArn"])


def _name(number: int) -> str:
    return f"job-{number}"


def _put_events(account: LocalAccount, bus: str, number: int, arn: str, *, last: int) -> int:
    """Up to four events of a job; returns how many."""
    actions, now, name = KINDS[number % len(KINDS)], time.time(), _name(number)
    reported = [Reported(0, "clean"), Reported(0, "clean", since_step=1)]
    if actions is None:
        reported += [Reported(0, "other"), Reported(0, "other", since_step=2)]
    else:  # the same issue twice, as the evaluator says it after a restart
        reported += [Reported(0, "issue", "IssuesFound", 40, actions)] * 2
    entries = []
    for index, one in enumerate(reported[:: -1 if last < len(reported) else 1][: max(last, 1)]):
        event = verdict_event(f"{name}/{index}", one, name=name, arn=arn, run=f"s3://runs/{name}", at=now)
        detail = json.dumps(event["detail"])
        entries.append(
            {"Source": "trackside", "DetailType": event["detail-type"], "Detail": detail, "EventBusName": bus}
        )
    answer = account.client("events").put_events(Entries=entries)
    if answer["FailedEntryCount"]:
        raise RuntimeError(f"The bus refused events: {answer}")
    return len(entries)


def _settle(account: LocalAccount, outputs: Mapping[str, str]) -> int:
    """Waits until nothing moves, then clears the weather and redrives until nothing is left. Returns how many."""
    deadline, redriven = time.monotonic() + LONGEST_SECONDS, 0
    _wait_until_still(account, outputs, deadline)
    account.faults.set(Faults())
    deployment = Redelivery(client=account.client)
    while time.monotonic() < deadline:
        letters = [one for one in deployment.choose(()) if one.count]
        if not letters:
            return redriven
        for one in letters:
            deployment.redrive(one)
            redriven += one.count
        _wait_until_still(account, outputs, deadline)
    raise TimeoutError(f"Dead letters keep coming back after {LONGEST_SECONDS:g} s.")


def _wait_until_still(account: LocalAccount, outputs: Mapping[str, str], deadline: float) -> None:
    queues = [url for name, url in outputs.items() if name.endswith("QueueUrl") and "Reconcile" not in name]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    sqs, before, still = account.client("sqs"), -1, 0
    while time.monotonic() < deadline:
        lying = 0
        for url in queues:
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
            lying += sum(int(found[name]) for name in names)
        deliveries = len(account.hops.find("queue-batch")) + len(account.hops.find("event-delivered"))
        still = still + 1 if not lying and deliveries == before else 0
        if still >= 8:
            return
        before = deliveries
        time.sleep(0.4)
    raise TimeoutError("The account never came to rest.")


def _mails(account: LocalAccount, url: str) -> Counter[str]:
    """Job -> messages, by the job's name."""
    sqs, found = account.client("sqs"), Counter[str]()
    while received := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        for message in received:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found[json.loads(message["Body"])["MessageAttributes"]["job"]["Value"]] += 1
    return found


def _counted(account: LocalAccount, name: str) -> int:
    now = time.time()
    dimensions = {"TrainingJobName": name, "RuleName": "issue", "Status": "IssuesFound"}
    points = account.client("cloudwatch").get_metric_statistics(
        Namespace="Trackside",
        MetricName="IssuesFound",
        Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
        StartTime=now - 7200,
        EndTime=now + 60,
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    return int(sum(point["Sum"] for point in points))


def _compare(
    account: LocalAccount, jobs: Sequence[str], mails: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """A mail or a count too many is excused where a caller was killed or an answer lost after SNS or CloudWatch took
    it; of these there cannot be more than such faults."""
    wrong: list[str] = []
    lost: list[str] = []
    twice = 0
    excuses = sum(
        len(account.hops.find("call-fault", fault=fault)) for fault in ("crash_before", "crash_after", "lost_answer")
    )
    sagemaker = account.client("sagemaker")
    for number in range(len(jobs)):
        name, actions = _name(number), KINDS[number % len(KINDS)] or ()
        status = sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
        stops = len(account.hops.find("job-state", job=name, status="Stopping"))
        wanted: Mapping[str, tuple[Any, Any]] = {
            "stops": (int("StopTraining" in actions), stops if status in ("Stopped", "Stopping") else 0),
            "mails": (int("Notify" in actions), mails.get(name, 0)),
            "counts": (int("PublishMetric" in actions), _counted(account, name)),
        }
        for what, (must, was) in wanted.items():
            if was < must:
                lost.append(f"{name}: {was} {what}, must be {must}")
            elif was > must and must and what != "stops" and twice < excuses:
                twice += was - must
            elif was > must:
                wrong.append(f"{name}: {was} {what}, must be {must}")
    return tuple(wrong), tuple(lost), twice


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing was lost and nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.real", description=__doc__)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    result = play_real(assembly(), replace(STORM, seed=options.seed), events=options.events)
    tried = ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()) if count)
    print("| seed | events | jobs | faults tried | redriven | lost | wrong | told twice | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(
        f"| {options.seed} | {result.events} | {result.jobs} | {tried} | {result.redriven} | {len(result.lost)} "
        f"| {len(result.wrong)} | {result.repeated} | {result.seconds:.0f} |"
    )
    for sentence in (*result.lost, *result.wrong):
        print(f"  {sentence}", file=sys.stderr)
    return 1 if result.lost or result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
