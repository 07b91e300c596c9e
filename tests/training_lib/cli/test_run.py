"""What `trackside run` refuses before anything starts. What it does is told by tests/journeys/test_local_run.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackside.choosing.rule_text import parse_rule
from trackside.cli import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


@pytest.mark.parametrize(
    ("text", "rule_id", "parameters"),
    [
        pytest.param("a", "a", {}, id="plain"),
        pytest.param("a:", "a", {}, id="no-parameters"),
        pytest.param("a:x=1", "a", {"x": "1"}, id="one"),
        pytest.param("a: x = 1 , y=b=c", "a", {"x": "1", "y": "b=c"}, id="two"),
        pytest.param("a:x=", "a", {"x": ""}, id="empty-value"),
    ],
)
def test_reads_a_rule(text: str, rule_id: str, parameters: dict[str, str]) -> None:
    configuration = parse_rule(text)
    assert (configuration.rule_id, configuration.parameters) == (rule_id, parameters)


@pytest.mark.parametrize(
    ("text", "source", "class_name", "parameters"),
    [
        pytest.param("mine.py:Mine", "mine.py", "Mine", {}, id="plain"),
        pytest.param("/a b/mine.py:Mine:x=1,y=2:3", "/a b/mine.py", "Mine", {"x": "1", "y": "2:3"}, id="parameters"),
        pytest.param("s3://bucket/mine.py:Mine:x=1", "s3://bucket/mine.py", "Mine", {"x": "1"}, id="S3"),
        pytest.param("a:x=mine.py:3", "", "a", {"x": "mine.py:3"}, id="a file in a parameter"),
    ],
)
def test_reads_a_rule_of_the_users_own(text: str, source: str, class_name: str, parameters: dict[str, str]) -> None:
    configuration = parse_rule(text)
    assert (configuration.source, configuration.rule_id) == (source, class_name)
    assert configuration.parameters == parameters


@pytest.mark.parametrize("text", ["", "mine.py:", ":x=1", "a:x", "a:=1", "a:x=1,,", "a:x=1,x=2"])
def test_refuses_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not NAME=VALUE|set twice|names no rule"):
        parse_rule(text)


TOUCH = (sys.executable, "-c", "open('it-ran', 'w')")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--rule", "vanishing-gradiant"], "Did you mean 'vanishing-gradient'?", id="unknown-rule"),
        pytest.param(["--rule", "vanishing-gradient:treshold=1"], "Did you mean 'threshold'?", id="unknown-parameter"),
        pytest.param(["--rule", "vanishing-gradient:threshold=abc"], "must be a number", id="wrong-type"),
        pytest.param(["--rule", "vanishing-gradient:threshold"], "is not NAME=VALUE", id="no-value"),
        pytest.param(["--on-issue", "panic"], "'panic' is not one of", id="unknown-choice"),
        pytest.param(["--save-interval", "0"], "not in the range", id="no-interval"),
        pytest.param(["--grace", "-1"], "not in the range", id="negative-grace"),
        pytest.param(["--rules-file", "nowhere.json"], "does not exist", id="no-file"),
        pytest.param(["--no-such-option"], "There is no option", id="unknown-option"),
        pytest.param(["--out", "taken"], "is not empty", id="folder-taken"),
        pytest.param(["--rescue", "python", "train.py"], "put `--` before it", id="a-command-in-place-of-a-mode"),
        pytest.param(["--rescue", "restart", "--rescue-place-tries", "0"], "not in the range", id="no-try"),
    ],
)
def test_a_mistake_is_refused_before_the_training_starts(arguments: list[str], said: str) -> None:
    Path("taken").mkdir()
    Path("taken/file").touch()
    result = run(*arguments, "--", *TOUCH)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert not Path("it-ran").exists()
    assert not Path(".trackside").exists()


def test_every_mistake_about_rules_is_told_at_once() -> None:
    result = run("--rule", "vanishing-gradiant", "--rule", "exploding-tensor:x=1", "--", *TOUCH)
    assert result.exit_code == 2
    assert "has 2 problems" in result.stderr
    assert "Unknown parameter 'x'" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no-json"),
        pytest.param('{"rules": [{"rule": "vanishing-gradient", "actions": ["Explode"]}]}', id="unknown-action"),
        pytest.param('{"rules": [{"rule": 7}]}', id="wrong-type"),
        pytest.param('{"rules": []}', id="no-rule-is-not-all-rules"),
        pytest.param("[" * 200_000, id="nested-too-deeply"),
    ],
)
def test_a_rules_file_that_is_wrong_is_refused(text: str) -> None:
    Path("rules.json").write_text(text)
    result = run("--rules-file", "rules.json", "--", *TOUCH)
    assert result.exit_code == 2
    assert "The rules file rules.json" in result.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["no-such-program-of-ours"], "there is no such program on PATH", id="unknown-program"),
        pytest.param(["train.py"], "trackside run -- python train.py", id="a-script-without-its-python"),
        pytest.param(["./train.py"], "python ./train.py", id="a-script-that-is-not-executable"),
        pytest.param(["./nowhere"], "there is no such file", id="no-such-file"),
        pytest.param(["./broken"], "cannot be started", id="no-executable-format"),
    ],
)
def test_a_command_that_cannot_start_is_a_usage_error_and_leaves_no_run(command: list[str], said: str) -> None:
    Path("train.py").write_text("")
    Path("broken").write_bytes(b"\x00\x01 no program")
    Path("broken").chmod(0o755)
    result = run("--", *command)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(Path(".trackside/runs").glob("*"))


def test_without_a_command_it_says_so() -> None:
    result = run()
    assert result.exit_code == 2
    assert "COMMAND" in result.stderr
