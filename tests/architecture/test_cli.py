"""Promises about every command: it explains itself, refuses what it does not know, and loads only what it needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.patience import HANGS_SECONDS
from trackside import __version__
from trackside.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
CLI = ROOT / "training_lib" / "src" / "trackside" / "cli"
REFERENCE = ROOT / "docs" / "reference" / "cli.md"


def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, (*words, name))


ALL = [pytest.param(words, command, id=" ".join(("trackside", *words))) for words, command in walk(main, ())]


def test_each_file_is_a_command_and_each_command_a_file() -> None:
    files = {path.stem for path in CLI.glob("*.py")} - {"__init__"}
    words = {word for word, _ in (stem.split("_") for stem in files if "_" in stem)}  # rules_test: `rules test`
    assert {stem for stem in files if "_" not in stem} == set(COMMANDS)
    assert words <= set(COMMANDS)


@pytest.mark.parametrize(("words", "command"), ALL)
def test_help_says_what_it_does_with_an_example(words: tuple[str, ...], command: click.Command) -> None:
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(main, [*words, flag])
        assert result.exit_code == 0
        assert f"trackside {' '.join(words)}".strip() in result.stdout
        assert "Example:" in result.stdout
        assert result.stderr == ""
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert not command.get_short_help_str(limit=60).endswith("...")


@pytest.mark.parametrize(("words", "command"), ALL)
def test_the_examples_are_commands_that_exist(words: tuple[str, ...], command: click.Command) -> None:
    _, _, example = (command.help or "").partition("Example:")
    lines = [line.split()[1:] for line in example.splitlines() if line.strip().startswith("trackside ")]
    assert lines
    for line in lines:
        found = main.get_command(click.Context(main), line[0])
        assert found is not None
        before_the_command = line[1 : line.index("--")] if "--" in line else line[1:]
        known = {option for parameter in _options(found, before_the_command) for option in parameter.opts}
        assert {word for word in before_the_command if word.startswith("--")} <= known


@pytest.mark.parametrize(("words", "command"), ALL)
def test_what_it_does_not_know_is_a_usage_error(words: tuple[str, ...], command: click.Command) -> None:
    result = CliRunner().invoke(main, [*words, "--no-such-option"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--no-such-option" in result.stderr


@pytest.mark.parametrize(("words", "command"), ALL)
def test_it_has_the_options_that_all_have(words: tuple[str, ...], command: click.Command) -> None:
    assert {"-v", "--verbose", "--no-color"} <= {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize(("words", "command"), ALL)
def test_it_stands_in_the_reference(words: tuple[str, ...], command: click.Command) -> None:
    assert f"\n## trackside {' '.join(words)}".rstrip() + "\n" in REFERENCE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("words", "command"), ALL)
def test_help_loads_nothing_heavy(words: tuple[str, ...], command: click.Command) -> None:
    """What makes `trackside --help` slow is what it imports; the number of modules does not depend on the machine."""
    code = (
        "import sys; sys.argv = ['trackside', *sys.argv[1:]]\n"
        "from trackside.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(len(sys.modules), *sorted({'numpy', 'rich', 'boto3', 'torch', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_SECONDS,
    )
    count, *heavy = done.stdout.splitlines()[-1].split()
    assert heavy == []
    assert int(count) < 300


def test_the_version_is_that_of_the_library() -> None:
    assert CliRunner().invoke(main, ["--version"]).stdout == f"trackside {__version__}\n"


def test_a_misspelt_command_says_which_was_meant() -> None:
    result = CliRunner().invoke(main, ["findngs", "latest"])
    assert result.exit_code == 2
    assert "Did you mean 'findings'?" in result.stderr


def _options(command: click.Command, words: list[str]) -> list[click.Parameter]:
    if isinstance(command, click.Group) and words:
        below = command.get_command(click.Context(command), words[0])
        assert below is not None
        return below.params
    return command.params
