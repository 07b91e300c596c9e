"""Command `python -m trackside.evaluation --run URI`: judges one run in its own process.

Reads `rule-request.json` from the run and writes verdicts to `rule-output/verdicts.jsonl`. Stdout stays empty; logs and
errors go to stderr. Exit codes: `exit_codes.py`. After SIGTERM it judges the steps that are complete, then ends; with
`--parent` after SIGINT alone.
"""

# ruff: noqa: E402

from __future__ import annotations

import gc

gc.disable()  # imports allocate much and free nothing: collecting meanwhile is a tenth of the start

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, RunNotFoundError, StorageError
from trackside.contracts.run_layout import RunLocation
from trackside.environment import EvaluatorEnvironment
from trackside.evaluation import exit_codes
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.results.run_learning import store_learning
from trackside.evaluation.results.summary import Summary
from trackside.evaluation.rule_request_file import read_rule_request
from trackside.evaluation.sinks.json_lines import JsonLinesSink
from trackside.evaluation.sinks.skip_list import SkipListSink
from trackside.evaluation.stop_signal import BOTH, StopSignal, ignore_signals_of_jobs
from trackside.products import RUN_SPEED, product
from trackside.storage.open_store import open_store

gc.freeze()  # what is imported stays, and no later collection walks through it
gc.enable()

_logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.parent is not None:
        ignore_signals_of_jobs()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)  # else it logs each client
    try:
        summary = _evaluate(RunLocation(options.run), poll_seconds=options.poll_seconds, parent=options.parent)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return exit_codes.BAD_CONFIGURATION
    except (StorageError, RunNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return exit_codes.RUN_UNREADABLE
    return exit_codes.exit_code_of(summary)


def _evaluate(run: RunLocation, *, poll_seconds: float, parent: int | None) -> Summary:
    if "://" not in run.uri and not Path(run.uri).expanduser().is_dir():
        # A prefix in a bucket appears with its first object; a missing folder is a mistyped name.
        raise RunNotFoundError(f"There is no folder {run.uri!r}. Give the folder of a run, or s3://bucket/prefix.")
    store = open_store(run.uri)
    if not next(iter(store.list("")), None):
        _logger.info("Nothing lies at %s yet: waiting for its first step. Ctrl-C ends it.", run.uri)
    rule_output = open_store(run.rule_output)
    with StopSignal((signal.SIGINT,) if parent is not None else BOTH) as stop:
        summary = evaluate(
            run,
            read_rule_request(store),
            [JsonLinesSink(rule_output), SkipListSink(rule_output, run=run)],
            poll_seconds=poll_seconds,
            clock=time.time,
            sleep=stop.sleep,
            should_stop=lambda: stop.is_set or parent not in {None, os.getppid()},
        )
    product(RUN_SPEED).store_speed(run, rule_output, clock=time.time)
    store_learning(rule_output, summary.learning)
    return summary


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trackside.evaluation", description="Judges one run.")
    parser.add_argument(
        "--run", required=True, metavar="URI", help="where the run lies: a folder or s3://bucket/prefix"
    )
    parser.add_argument(
        "--poll-seconds",
        type=_positive,
        default=EvaluatorEnvironment.read().poll_seconds,
        metavar="N",
        help="how often to look for new steps (default: TRACKSIDE_POLL_SECONDS, or 1)",
    )
    parser.add_argument(
        "--parent", type=int, metavar="PID", help="end, as after SIGTERM, once this process is no longer the parent"
    )
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.exit(main())
