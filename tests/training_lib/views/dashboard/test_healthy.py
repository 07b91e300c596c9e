"""A failed run beside the healthy run that differs from it the least."""

from __future__ import annotations

from pathlib import Path

from tests.training_lib.local.verdicts import no_issue
from tests.training_lib.views.dashboard.runs import ISSUE, write_run
from tests.training_lib.views.dashboard.served import served
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_facts

CLEAN = no_issue()


TOO_SHORT = [
    no_issue(name, outcome=Outcome.NOT_EVALUATED, message="Too few steps.") for name in ("overfit", "wrong-mode")
]


def write(folder: Path, name: str, *others: Verdict, rate: float, verdict: Verdict = CLEAN, ended: bool = True) -> None:
    run = folder / ".trackside/runs" / name
    write_run(run, verdicts=(verdict, *others), ended=ended)
    optimizer = OptimizerFacts("SGD", "SGD", groups=({"lr": rate, "momentum": 0.9},), parameter_count=4)
    write_facts(LocalStore(RunLocation(str(run)).tensors), ModelFacts(optimizers=(optimizer,)))


def test_the_run_with_the_fewest_other_settings_is_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "a-like-it", rate=0.1)
    write(tmp_path, "b-other-rate", rate=0.2)
    write(tmp_path, "c-still-runs", rate=0.1, ended=False)
    write(tmp_path, "d-failed-too", rate=0.1, verdict=ISSUE)
    write(tmp_path, "e-hardly-judged", *TOO_SHORT, rate=0.1)
    write(tmp_path, "faulty", rate=0.1, verdict=ISSUE)
    with served(tmp_path) as server:
        assert "/runs/faulty/healthy" in server.page("/runs/faulty")
        assert "/healthy" not in server.page("/runs/a-like-it")
        answer = server.ask("/runs/faulty/healthy")
        assert answer.status == 303
        assert answer.headers["location"] == "/compare?run=a-like-it&run=faulty"
        assert "only B has an issue: vanishing-gradient" in server.page(answer.headers["location"])


def test_without_a_healthy_run_the_page_says_so(tmp_path: Path) -> None:
    write(tmp_path, "faulty", rate=0.1, verdict=ISSUE)
    write(tmp_path, "faulty-too", rate=0.1, verdict=ISSUE)
    with served(tmp_path) as server:
        assert "No healthy run to compare with" in server.page("/runs/faulty/healthy")
