"""The repair of a problem: the line, the values, the change; and silence where none is sure."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.issue_group import IssueGroup, group_of_one
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.repair import PlaceKind, Repair
from trackside.runs.mending.repair import repair_of
from trackside.runs.source_text import SourceText
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_facts

SCRIPT = """\
import torch

optimizer = torch.optim.SGD(model.parameters(), lr=50.0)
criterion = torch.nn.CrossEntropyLoss()
hidden = torch.sigmoid(torch.sigmoid(inputs))
outputs = net(hidden).softmax(1)
criterion(outputs, labels).backward()
optimizer.step()
"""
BEFORE = 1_700_000_000
OPTIMIZER, SOFTMAX, BACKWARD = 3, 6, 7


def problem(*causes: Cause, place: str = "") -> IssueGroup:
    lead = replace(finding(), place=place)
    return group_of_one(replace(issue(findings=(lead,)), suspicions=tuple(map(Suspicion, causes))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str = SCRIPT, *, rates: tuple[float, ...] = (50.0,)) -> SourceText:
    """The files of a run whose script has this text and whose optimizer has a group for each rate."""
    script = folder / "train.py"
    script.write_text(text)
    os.utime(script, (BEFORE, BEFORE))
    groups = tuple({"lr": rate} for rate in rates)
    facts = ModelFacts(
        optimizers=(OptimizerFacts("SGD", "SGD", groups=groups, parameter_count=2),),
        losses=(LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", "mean"),),
        program=ProgramFacts(script=str(script)),
    )
    write_facts(LocalStore(folder / "run" / "debug-output"), facts)
    return SourceText(str(folder / "run"))


def place_of(found: Repair) -> tuple[int, PlaceKind] | None:
    return None if found.place is None else (found.place.line, found.place.kind)


SEARCHED, RECORDED = PlaceKind.SEARCHED, PlaceKind.RECORDED
PLACES: dict[str, tuple[IssueGroup, tuple[int, PlaceKind] | None]] = {
    "a rate is set where the optimizer is made": (
        problem(Cause.LEARNING_RATE_TOO_HIGH, place="train.py:7"),
        (OPTIMIZER, SEARCHED),
    ),
    "the recorded line is of another call": (problem(Cause.DOUBLE_SOFTMAX, place="train.py:7"), (SOFTMAX, SEARCHED)),
    "the recorded line has such a call": (problem(Cause.VANISHING_GRADIENTS, place="train.py:5"), (5, RECORDED)),
    "the recorded line has the pass": (problem(Cause.MISSING_ZERO_GRAD, place="train.py:7"), (BACKWARD, RECORDED)),
    "a recorded line without a call to look for": (problem(Cause.LOSS_SIGN, place="train.py:7"), (BACKWARD, RECORDED)),
    "a recorded line, and no such call": (problem(Cause.CLIPPING_TOO_LOW, place="train.py:7"), (BACKWARD, RECORDED)),
    "the one call of its kind": (problem(Cause.DOUBLE_SOFTMAX), (SOFTMAX, SEARCHED)),
    "the pass that needs cleared gradients": (problem(Cause.MISSING_ZERO_GRAD), (BACKWARD, SEARCHED)),
    "the loss": (problem(Cause.WRONG_LOSS), (4, SEARCHED)),
    "two calls on one line": (problem(Cause.VANISHING_GRADIENTS), (5, SEARCHED)),
    "no such call": (problem(Cause.CLIPPING_TOO_LOW), None),
    "a cause of no call": (problem(Cause.OVERFITTING), None),
    "no cause": (problem(), None),
    "no cause, a recorded line": (problem(place="train.py:4"), (4, RECORDED)),
    "a place without a line": (problem(place="train.py"), None),
}


def test_the_line_to_look_at(folder: Path) -> None:
    sources = written(folder)

    @for_each(PLACES)
    def check(group: IssueGroup, place: tuple[int, PlaceKind] | None) -> None:
        found = repair_of(group, sources)
        assert place_of(found) == place
        if found.place is not None:
            assert found.place.text == SCRIPT.splitlines()[found.place.line - 1]

    check()


TEXTS = {
    "two optimizers": SCRIPT + "other = torch.optim.SGD(more, lr=0.1)\n",
    "no optimizer by that name": SCRIPT.replace("SGD", "Adam"),
    "a script that does not parse": f"{SCRIPT}def (\n",
    "a script with null bytes": f"{SCRIPT}\0",
}


def test_a_call_that_is_not_clear_is_not_named(folder: Path) -> None:
    @for_each({name: (text,) for name, text in TEXTS.items()})
    def check(text: str) -> None:
        found = repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), written(folder, text))
        assert found.place is None
        assert found.change

    check()


def test_a_script_that_changed_since_is_not_searched(folder: Path) -> None:
    sources = written(folder)
    os.utime(folder / "train.py")
    later = (folder / "run").stat().st_mtime + 60
    os.utime(folder / "train.py", (later, later))
    assert repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), sources).place is None


def test_a_setting_has_its_value_and_the_one_to_try_first(folder: Path) -> None:
    found = repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), written(folder))
    assert (found.setting, found.value, found.proposed) == ("lr", 50.0, 5.0)
    assert found.change == "Set lr to 5; it is 50."


def test_several_values_are_not_one_setting(folder: Path) -> None:
    found = repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), written(folder, rates=(0.1, 1.0)))
    assert (found.setting, found.value, found.proposed) == ("", None, None)
    assert found.change.startswith("Divide the learning rate by ten")


def test_the_values_are_those_of_the_leading_finding(folder: Path) -> None:
    found = repair_of(problem(Cause.LEARNING_RATE_TOO_LOW), written(folder))
    assert (found.observed, found.relation, found.expected) == (3.1e-12, "<", 1e-7)
    assert (found.subject, found.measure) == ("gradient/MLP_layers.0.weight", "mean |gradient|")


def test_a_run_without_files_has_values_and_a_change() -> None:
    found = repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), SourceText("s3://bucket/run"))
    assert (found.place, found.setting, found.observed) == (None, "", 3.1e-12)
    assert found.change


BATCHES = """\
for x, y in loader:
    x = x * 1000
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_the_change_of_a_setting_is_a_line(folder: Path) -> None:
    (edit,) = repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), written(folder)).edits
    assert (edit.line, edit.old) == (OPTIMIZER, SCRIPT.splitlines()[OPTIMIZER - 1])
    assert edit.new == "optimizer = torch.optim.SGD(model.parameters(), lr=5)"


def test_the_change_of_a_call_is_a_line(folder: Path) -> None:
    (edit,) = repair_of(problem(Cause.DOUBLE_SOFTMAX), written(folder)).edits
    assert (edit.line, edit.new) == (SOFTMAX, "outputs = net(hidden)")


def test_no_line_changes_where_the_cause_settles_none(folder: Path) -> None:
    sources = written(folder)

    @for_each({"no cause": (problem(),), "a cause of no call": (problem(Cause.OVERFITTING, place="train.py:4"),)})
    def check(group: IssueGroup) -> None:
        assert repair_of(group, sources).edits == ()

    check()
    assert repair_of(problem(Cause.LEARNING_RATE_TOO_HIGH), SourceText("s3://bucket/run")).edits == ()


def test_a_cause_in_the_batches_names_the_one_line_that_changes_them(folder: Path) -> None:
    found = repair_of(problem(Cause.UNNORMALIZED_INPUTS, place="train.py:4"), written(folder, BATCHES))
    assert place_of(found) == (2, SEARCHED)
    assert [(edit.line, edit.old, edit.new) for edit in found.edits] == [(2, "    x = x * 1000", "")]
    assert "try without it" in found.change


def test_another_cause_does_not(folder: Path) -> None:
    found = repair_of(problem(Cause.OVERFITTING, place="train.py:4"), written(folder, BATCHES))
    assert (place_of(found), found.edits) == ((4, RECORDED), ())
