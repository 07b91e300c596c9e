"""Promises about every command: it explains itself, refuses what it does not know, and loads only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from tests.for_each import for_each
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


every_command = for_each({" ".join(("trackside", *words)): (words, command) for words, command in walk(main, ())})


def test_each_file_is_a_command_and_each_command_a_file() -> None:
    files = {path.stem for path in CLI.glob("*.py")} - {"__init__"}
    files |= {path.parent.name for path in CLI.glob("*/__init__.py")} - {"terminal", "health"}  # aws: its commands
    words = {word for word, _ in (stem.split("_") for stem in files if "_" in stem)}  # rules_test: `rules test`
    assert {stem for stem in files if "_" not in stem} == set(COMMANDS)
    assert words <= set(COMMANDS)


@every_command
def test_help_says_what_it_does_with_an_example(words: tuple[str, ...], command: click.Command) -> None:
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(main, [*words, flag])
        assert result.exit_code == 0
        assert f"trackside {' '.join(words)}".strip() in result.stdout
        assert "Example:" in result.stdout
        assert result.stderr == ""
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert not command.get_short_help_str(limit=60).endswith("...")


@every_command
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


@every_command
def test_what_it_does_not_know_is_a_usage_error(words: tuple[str, ...], command: click.Command) -> None:
    result = CliRunner().invoke(main, [*words, "--no-such-option"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--no-such-option" in result.stderr


@every_command
def test_it_has_the_options_that_all_have(words: tuple[str, ...], command: click.Command) -> None:
    assert {"-v", "--verbose", "--no-color"} <= {option for parameter in command.params for option in parameter.opts}


@every_command
def test_it_stands_in_the_reference(words: tuple[str, ...], command: click.Command) -> None:
    assert f"\n## trackside {' '.join(words)}".rstrip() + "\n" in REFERENCE.read_text(encoding="utf-8")


HELPS = """
import json, os, sys
from trackside.cli import main
loaded = {}
for words in json.load(sys.stdin):
    read, write = os.pipe()
    if not os.fork():  # what one command imports is not there for the next
        sys.argv = ["trackside", *words, "--help"]
        sys.stdout = open(os.devnull, "w")
        try: main()
        except SystemExit as end: assert not end.code, end.code
        os.write(write, json.dumps(sorted(sys.modules)).encode())
        os._exit(0)
    os.close(write)
    with open(read) as modules:
        loaded[" ".join(words)] = json.load(modules)
    os.wait()
json.dump(loaded, sys.stdout)
"""


def test_help_loads_nothing_heavy() -> None:
    """What makes `trackside --help` slow is what it imports; the number of modules does not depend on the machine."""
    words = [words for words, _ in walk(main, ())]
    done = subprocess.run(
        [sys.executable, "-c", HELPS],
        input=json.dumps(words), capture_output=True, text=True, check=True, timeout=HANGS_SECONDS,
    )  # fmt: skip
    loaded = {name: set(modules) for name, modules in json.loads(done.stdout).items()}
    assert len(loaded) == len(words)
    heavy = {name: modules & {"numpy", "rich", "boto3", "torch", "asyncio"} for name, modules in loaded.items()}
    assert not {name: modules for name, modules in heavy.items() if modules}
    assert not {name: len(modules) for name, modules in loaded.items() if len(modules) >= 300}


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
