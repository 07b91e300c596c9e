"""The story behind `make demo`: its limits scale with the machine, and a missing effect is reported in full."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stacks.assembly import assembly
from trackside.contracts.run_layout import RunLocation
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.server import LocalAccount

FOLDER = Path(__file__).parents[2] / "examples" / "demo"
pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process
CRASH = "import sys; print('planted: the evaluator crashes', flush=True); sys.exit(3)"


@pytest.fixture(scope="module")
def story() -> Iterator[Any]:
    """The demo's module, imported as the demo does."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("story")
    sys.path.remove(str(FOLDER))


@pytest.fixture
def account() -> Iterator[LocalAccount]:
    with LocalAccount(stop_grace_seconds=5) as account:
        yield account


def run_of(story: Any, account: LocalAccount, start_seconds: float, *command: str, name: str = "faulty") -> Any:
    """A training job of any program, as the story follows it, in an account without the stacks."""
    inbox, ear = (create_inbox(account, queue) for queue in (story.INBOX, story.BUS_EAR))
    stage = story.Stage(account, {}, start_seconds=start_seconds, inbox_url=inbox, bus_ear_url=ear)
    stage.client("s3").create_bucket(Bucket="runs")
    stage.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={
            "TrainingImage": "training",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(command),
        },
        RoleArn=create_role(account, "training"),
        OutputDataConfig={"S3OutputPath": "s3://runs"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
    return story.TrainingRun(stage, name, "vanishing", RunLocation(f"s3://runs/{name}"), time.time())


class Clock:
    """The machine's clock, which can be set forward."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds


@pytest.mark.parametrize("table", ["faulty_effects", "healthy_effects"])
def test_every_limit_is_many_starts_of_python_and_grows_with_a_slower_machine(
    story: Any, account: LocalAccount, table: str
) -> None:
    run = story.TrainingRun(story.Stage(account, {}), "digits", "none", RunLocation("s3://runs/digits"), 0.0)
    for effect in getattr(story, table)(run):
        quick = story.limit_seconds(effect.most_starts, start_seconds=2.0)
        slow = story.limit_seconds(effect.most_starts, start_seconds=10.0)
        assert quick >= 10 * 2.0, effect.name
        assert slow == 5 * quick, effect.name


def test_the_faulty_twin_trains_until_it_is_stopped_and_the_healthy_one_to_its_end(story: Any) -> None:
    assert story.arguments_of("vanishing") == ["--fault", "vanishing", "--until-stopped"]
    assert story.arguments_of("none") == ["--fault", "none", "--epochs", str(story.HEALTHY_EPOCHS)]


def test_a_training_that_ends_by_itself_fails_the_effect_at_once(story: Any, account: LocalAccount) -> None:
    """Issue 14: the demo waited 90 s for the stop of a training that had ended."""
    run = run_of(story, account, 1000.0, sys.executable, "-c", "print('epoch 0')")
    effect = story.Effect("training is stopped", run.process_gone, run.training_changed, 40)

    with pytest.raises(story.EffectMissing) as missing:
        list(story.follow(run, (effect,)))

    assert (missing.value.effect, missing.value.why) == (
        "training is stopped",
        "the training job ended as Completed: by itself",
    )
    assert f"training job    {run.name}: Completed for" in missing.value.seen
    assert "The last lines of training job faulty:\n  epoch 0" in missing.value.seen


def test_an_effect_is_looked_at_after_its_entry_and_not_before(story: Any, account: LocalAccount) -> None:
    run = run_of(story, account, 1000.0, sys.executable, "-c", "input()")
    account.watch_objects("runs/faulty/")
    store, looks = run.stage.store(run.run.uri), list[int]()
    objects = iter(["other/1", "other/2", "wanted/1"])

    def look() -> str | None:
        looks.append(len(list(store.list("wanted/"))))
        return "there" if looks[-1] else None

    effect = story.Effect("wanted", look, run.stored("wanted/"), 40)
    (arrival,) = story.follow(run, (effect,), on_wait=lambda _: store.put(next(objects), b"x"))

    assert arrival.detail == "there"
    assert looks == [0, 1], "at first, and when it was told"


def test_an_effect_without_an_entry_is_missing_when_its_limit_is_over(story: Any, account: LocalAccount) -> None:
    run = run_of(story, account, 3.0, sys.executable, "-c", "import time; time.sleep(600)")
    account.hops.wait_for("job-process", job=run.name)
    letters = account.client("sqs").create_queue(QueueName="stop-dead-letters")["QueueUrl"]
    account.client("sqs").send_message(QueueUrl=letters, MessageBody="a stop that failed")
    clock = Clock()

    def set_forward(_: str) -> None:
        clock.ahead_seconds += 50.0

    effect = story.Effect("training is stopped", run.process_gone, run.training_changed, 40)
    with pytest.raises(story.EffectMissing) as missing:
        list(story.follow(run, (effect,), clock=clock, on_wait=set_forward))

    assert missing.value.why == "not within 120 s (40 starts of Python with torch)"
    assert f"training job    {run.name}: InProgress for" in missing.value.seen
    assert "queue           stop-dead-letters: 1 messages" in missing.value.seen


def test_a_missing_effect_is_reported_with_all_that_was_seen(story: Any, account: LocalAccount) -> None:
    """The stacks are real, the evaluator crashes."""
    stage = story.set_stage(account, assembly())
    account.register_image("trackside-evaluator", [sys.executable, "-c", CRASH])
    run = story.TrainingRun.create(stage, "vanishing")

    with pytest.raises(story.EffectMissing) as missing:
        list(story.follow(run, story.faulty_effects(run)))

    seen = missing.value.seen
    assert missing.value.effect in ("a rule finds the fault", "rule container is done"), "whichever looks first"
    assert missing.value.why == "the rule container is Failed: AlgorithmError: , exit code: 3"
    assert f"training job    {run.name}: InProgress for" in seen
    assert "(AlgorithmError: , exit code: 3)" in seen
    assert "rule            none has a verdict" in seen
    (starts,) = [line for line in seen.splitlines() if "startevaluation" in line.lower() and " invocations, " in line]
    assert not starts.endswith(": 0 invocations, 0 errors")
    for log in (f"training job {run.name}", "processing job trackside-", "function Trackside"):
        assert f"The last lines of {log}" in seen, seen
    assert "planted: the evaluator crashes" in seen
