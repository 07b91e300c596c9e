"""The state when an effect of the chain did not come: states, counts, and the end of every log that matters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from story import TrainingRun

LAST_LINES = 12


def what_was_seen(run: TrainingRun) -> str:
    """The state of everything between the training job and its stop, then the logs."""
    processing = _processing_jobs(run)
    lines = [
        "Seen instead:",
        f"  training job    {run.name}: {_state(run.describe(), 'Training')}",
        *(f"  processing job  {job['ProcessingJobName']}: {_state(job, 'Processing')}" for job in processing),
        *(["  processing job  none"] if not processing else []),
        *(f"  rule            {each}" for each in _last_verdicts(run)),
        *(f"  function        {each}" for each in _functions(run)),
        *(f"  queue           {each}" for each in _waiting_messages(run)),
    ]
    account = run.stage.account
    lines += _log(f"training job {run.name}", account.job_log(run.name))
    for job in processing:
        lines += _log(f"processing job {job['ProcessingJobName']}", account.job_log(job["ProcessingJobName"]))
    for name in _function_names(run):
        if text := account.function_log(name):
            lines += _log(f"function {name}", text)
    return "\n".join(lines)


def _processing_jobs(run: TrainingRun) -> list[Mapping[str, Any]]:
    """Those that judge this training job, the oldest first."""
    sagemaker = run.stage.client("sagemaker")
    pages = sagemaker.get_paginator("list_processing_jobs").paginate(SortBy="CreationTime", SortOrder="Ascending")
    names = [each["ProcessingJobName"] for page in pages for each in page["ProcessingJobSummaries"]]
    jobs = [sagemaker.describe_processing_job(ProcessingJobName=name) for name in names]
    return [job for job in jobs if job.get("Environment", {}).get("TRAINING_JOB_NAME") == run.name]


def _state(job: Mapping[str, Any], kind: str) -> str:
    """`Failed for 12 s (AlgorithmError: ...)`."""
    seconds = time.time() - job["LastModifiedTime"].timestamp()
    reason = job.get("FailureReason") or job.get("ExitMessage")
    return f"{job[f'{kind}JobStatus']} for {seconds:.0f} s" + (f" ({reason})" if reason else "")


def _last_verdicts(run: TrainingRun) -> Iterator[str]:
    last = {verdict.configuration_name: verdict for verdict in run.verdicts()}
    for name, verdict in last.items():
        yield f"{name}: {verdict.outcome.value}, step {verdict.step}: {verdict.message}"
    if not last:
        yield "none has a verdict"


def _functions(run: TrainingRun) -> Iterator[str]:
    ended = run.stage.account.hops.find("lambda")
    errors = Counter(entry.names["function"] for entry in ended if entry.names["error"] != "none")
    for name in _function_names(run):
        invocations = run.stage.account.function_log(name).count("START RequestId: ")
        yield f"{name}: {invocations} invocations, {errors[name]} errors"


def _function_names(run: TrainingRun) -> list[str]:
    pages = run.stage.client("lambda").get_paginator("list_functions").paginate()
    return sorted(function["FunctionName"] for page in pages for function in page["Functions"])


def _waiting_messages(run: TrainingRun) -> Iterator[str]:
    """Queues with messages: dead letters, and what no function has taken."""
    sqs = run.stage.client("sqs")
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    waiting = False
    for url in sqs.list_queues().get("QueueUrls", []):
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=counts)["Attributes"]
        if messages := sum(int(found[count]) for count in counts):
            waiting = True
            yield f"{url.rpartition('/')[2]}: {messages} messages"
    if not waiting:
        yield "none has a message, dead letters included"


def _log(of: str, text: str) -> list[str]:
    last = text.splitlines()[-LAST_LINES:] or ["(empty)"]
    return ["", f"The last lines of {of}:", *(f"  {line}" for line in last)]
