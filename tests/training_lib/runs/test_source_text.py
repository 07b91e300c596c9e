"""The line of the user's code behind a finding, while its file is at hand and unchanged."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.issue_group import group_of_one
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.run.answers import KeptAnswer, KeptAnswers
from trackside.contracts.run_layout import answers_key, model_facts_key
from trackside.records.answers_file import encode_answers
from trackside.records.model_facts import encode_facts
from trackside.runs.problem_text import problems_as_html, rows_of
from trackside.runs.source_text import SourceLine, SourceText
from trackside.storage.local import LocalStore
from trackside.views.report.markdown import problem_lines

TRAINED_AT = 1_700_000_000


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script in a folder of its own, and the run of it; the user works at the top."""
    monkeypatch.chdir(tmp_path)
    scripts = tmp_path / "scripts"
    (scripts / "net").mkdir(parents=True)
    (scripts / "train.py").write_text("import torch\n\n    loss = criterion(out, y)\n")
    (scripts / "net" / "mlp.py").write_text("class Net: ...\n")
    for file in scripts.rglob("*.py"):
        os.utime(file, (TRAINED_AT - 60, TRAINED_AT - 60))
    facts = ModelFacts(program=ProgramFacts(script=str(scripts / "train.py")))
    store = LocalStore(tmp_path / "run" / "debug-output")
    store.put(model_facts_key("worker_0"), encode_facts([facts]))
    os.utime(tmp_path / "run" / "debug-output" / model_facts_key("worker_0"), (TRAINED_AT, TRAINED_AT))
    return tmp_path


@pytest.mark.parametrize(
    ("place", "line"),
    [
        pytest.param("train.py:3", SourceLine("scripts/train.py:3", "loss = criterion(out, y)"), id="script"),
        pytest.param("net/mlp.py:1", SourceLine("scripts/net/mlp.py:1", "class Net: ..."), id="module"),
        pytest.param("train.py:2", SourceLine("scripts/train.py:2"), id="an-empty-line"),
        pytest.param("train.py:99", SourceLine("scripts/train.py:99"), id="beyond-the-end"),
        pytest.param("gone.py:1", SourceLine("gone.py:1"), id="a-file-that-is-gone"),
        pytest.param("train.py", SourceLine("train.py"), id="no-number"),
        pytest.param("", SourceLine(""), id="nothing"),
        pytest.param("net:1", SourceLine("net:1"), id="a-folder"),
    ],
)
def test_a_place_becomes_a_path_as_typed_and_its_text(project: Path, place: str, line: SourceLine) -> None:
    assert SourceText("run").line(place) == line


def test_a_file_that_changed_since_shows_no_text(project: Path) -> None:
    (project / "scripts" / "train.py").write_text("# another line\n" * 5)
    assert SourceText("run").line("train.py:3") == SourceLine("scripts/train.py:3")


def test_outside_the_working_folder_the_path_is_whole(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(project / "run")
    monkeypatch.chdir(project / "run")
    assert SourceText(run).line("train.py:3").place == f"{project}/scripts/train.py:3"


@pytest.mark.parametrize("run", ["nowhere", "s3://bucket/run"])
def test_without_facts_at_hand_the_place_stays(project: Path, run: str) -> None:
    assert SourceText(run).line("train.py:3") == SourceLine("train.py:3")


def test_facts_that_come_later_are_found(project: Path) -> None:
    file = project / "run" / "debug-output" / model_facts_key("worker_0")
    hidden = file.with_suffix(".later")
    file.rename(hidden)
    sources = SourceText("run")
    assert sources.line("train.py:3").text == ""
    hidden.rename(file)
    assert sources.line("train.py:3").text == "loss = criterion(out, y)"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        pytest.param("In [2], line 2", "loss.backward()", id="line-of-a-cell"),
        pytest.param("In [2], line 9", "", id="beyond-the-cell"),
        pytest.param("In [2], line 0", "", id="before-the-cell"),
        pytest.param("In [7], line 1", "", id="a-cell-of-another-session"),
    ],
)
def test_a_cell_of_this_notebook_shows_its_line(place: str, text: str) -> None:
    cells = ("", "import torch", "loss = net(x)\n  loss.backward()")
    assert SourceText("run", cells=cells).line(place) == SourceLine(place, text)
    assert SourceText("run").line(place) == SourceLine(place), "of a run of another session no cell is known"


def test_cards_show_the_line_as_the_terminal_does(project: Path) -> None:
    """The page, the notebook and the short report had its number alone."""
    group = group_of_one(issue(findings=(replace(finding(), place="train.py:3"),)))
    sources = SourceText("run")
    assert dict(rows_of(group, sources))["code"] == "loss = criterion(out, y)"
    assert "<code>loss = criterion(out, y)</code>" in problems_as_html([group], heading="", state="", sources=sources)
    assert "| code | loss = criterion(out, y) |" in list(problem_lines(group, sources))
    assert "code" not in dict(rows_of(group))


def test_cards_show_the_answers_that_a_rule_is_about(project: Path) -> None:
    def step(number: int) -> KeptAnswers:
        told = [
            KeptAnswer("2 + 2 =", text, reward) for text, reward in (("5", 0.0), ("many\nwords <b>", 0.5), ("4", 1.0))
        ]
        return KeptAnswers(number, (*told, KeptAnswer("", f"of {number}", 2.0)))

    LocalStore(project / "run" / "answers").put(answers_key("worker_0"), encode_answers([step(2), step(20), step(21)]))
    sources = SourceText("run")
    shown = {name: sources.answers(issue(name)) for name in ("gamed-reward", "unended-answers", "entropy-collapse")}
    assert {name: lines[0] for name, lines in shown.items()} == {
        "gamed-reward": "reward 2: of 20",
        "unended-answers": "reward 0.5: 2 + 2 = → many words <b>",
        "entropy-collapse": "reward 0: 2 + 2 = → 5",
    }
    assert {len(lines) for lines in shown.values()} == {3}
    group = group_of_one(issue("unended-answers"))
    assert dict(rows_of(group, sources))["answers"] == shown["unended-answers"][0]
    assert "many words &lt;b&gt;" in problems_as_html([group], heading="", state="", sources=sources)
    assert not sources.answers(issue("vanishing-gradient"))
    assert not SourceText("elsewhere").answers(issue("gamed-reward"))
