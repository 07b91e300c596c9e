"""The eleven questions of docs/query.md, and their answers from runs of the examples.

    python -m benchmarks.query_answers --write docs/query.md

Trains the three examples, healthy and faulty, under `trackside run`, asks each question by its name as a user does, and
puts what is printed in place of what stands after the question on the page. Lines are cut to 100 columns.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from trackside.environment import inherited

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 100
_ANSWER = re.compile(r"```console\n\$ trackside query (?P<name>[a-z-]+)\n.*?```\n", re.DOTALL)
_RUNS = re.compile(r"(The answers are those of ).*?\n\n", re.DOTALL)
_DIGITS, _BOOSTING, _KERAS = (f"examples/{name}/train.py" for name in ("digits", "boosting", "keras"))
RUNS: tuple[tuple[str, ...], ...] = (
    (_DIGITS, "--epochs", "25"),
    (_DIGITS, "--epochs", "25", "--seed", "2"),
    (_DIGITS, "--epochs", "25", "--fault", "vanishing"),
    (_DIGITS, "--epochs", "25", "--fault", "vanishing", "--depth", "24"),
    (_DIGITS, "--epochs", "25", "--fault", "exploding"),
    (_DIGITS, "--epoch", "25,"),  # mistyped
    (_BOOSTING,),
    (_BOOSTING, "--fault", "memorise"),
    (_KERAS,),
    (_KERAS, "--fault", "vanishing"),
)
STOPPED = (_DIGITS, "--epochs", "25", "--fault", "exploding")  # by `--on-issue stop`


def main(words: Sequence[str] | None = None) -> int:
    """Make the runs, ask, and write the page or print it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path, help="the page with the questions; else the answers are printed")
    arguments = options.parse_args(words)
    page = ROOT / "docs" / "query.md" if arguments.write is None else arguments.write
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="query-answers-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        for command in RUNS:
            train(folder, command)
        train(folder, STOPPED, "--on-issue", "stop")
        answers = {match["name"]: answered(folder, match["name"]) for match in _ANSWER.finditer(text)}
    text = written(text, answers)
    if arguments.write is None:
        print("\n".join(answers.values()))
    else:
        page.write_text(text, "utf-8")
    return 0


def train(folder: Path, command: Sequence[str], *options: str) -> None:
    """Run an example under `trackside run`; its exit code is a part of the story."""
    started = [sys.executable, "-m", "trackside", "run", *options, "--", "python", *command]
    environment = {**inherited(), "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(started, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    print(f"{' '.join(command)}: exit code {done.returncode}", file=sys.stderr)


def answered(folder: Path, name: str) -> str:
    """Return what `trackside query NAME` prints, each line cut to the page's width."""
    asked = [sys.executable, "-m", "trackside", "query", name]
    environment = {**inherited(), "COLUMNS": str(COLUMNS)}
    done = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = (line[:COLUMNS].rstrip() for line in (done.stdout or done.stderr).splitlines())
    return "\n".join(line for line in lines if line)


def written(text: str, answers: dict[str, str]) -> str:
    """Return the page with the answers in place.

    Raises:
        ValueError: The page lacks the sentence about the runs, or a question.
    """
    today = time.strftime("%d %B %Y", time.gmtime()).removeprefix("0")
    what = " ".join([*_sentence(), f"Written by `python -m benchmarks.query_answers` on {today}."])
    text, count = _RUNS.subn(lambda match: match[1] + _wrapped(what) + "\n\n", text)
    if count != 1 or not answers:
        raise ValueError("The page has no sentence that begins with 'The answers are those of', or no question.")
    return _ANSWER.sub(
        lambda match: f"```console\n$ trackside query {match['name']}\n{answers[match['name']]}\n```\n", text
    )


def _sentence() -> Iterator[str]:
    faulty = sum("--fault" in command for command in RUNS) + 1
    yield f"{len(RUNS) + 1} runs of the examples for PyTorch, XGBoost and Keras: {faulty} have a fault that `--fault`"
    yield "plants, of which Trackside stopped one, one had a mistyped option, and the rest are healthy."


def _wrapped(text: str, width: int = 128) -> str:
    lines, line = [], "The answers are those of"
    for word in text.split():
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}"
    return "\n".join([*lines, line]).removeprefix("The answers are those of ")


if __name__ == "__main__":
    sys.exit(main())
