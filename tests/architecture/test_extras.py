"""Promises about extras: no command fails for a missing one, and each names the command that brings it here.

`.ci/check_extras.py` does the same in real environments, each with the wheel and one combination of extras.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from tests.patience import HANGS_SECONDS
from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.environment import inherited
from trackside.extras import EXTRAS, install_command

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("each_command.py")

# Every command with arguments that lead to its work, and the extra that this work needs ("": none).
COMMANDS = {
    "findings bad": "",
    "findings s3://bucket/bad": "aws",
    "report bad --output report.html": "",
    "report s3://bucket/bad --output report.html": "aws",
    "serve nowhere": "",
    "serve nowhere --issuer https://id.example --client runs": "dashboard",
    "mcp nowhere": "mcp",
    "query by-day": "query",
    "watch bad --once": "",
    "wait bad --timeout 0": "",
    "stop bad": "",
    "compare bad bad": "",
    "runs": "",
    "runs s3://bucket": "aws",
    "tensors bad": "",
    "stats bad": "",
    "stats s3://bucket/bad": "aws",
    "values bad gradient/fc.weight": "",
    "watch s3://bucket/bad --once": "aws",
    "export bad --to tensorboard tb": "",
    "export bad --to parquet out": "parquet",
    "import .trackside/runs/bad copy": "",
    "import s3://bucket/bad copy2": "aws",
    "judge log.csv": "",
    "judge s3://bucket/log.csv": "aws",
    "rules list": "",
    "rules show overfit": "",
    "rules run bad": "",
    "rules test bad": "",
    "aws attach job.json --run s3://bucket/x": "",
    "aws status": "aws",
    "aws verdicts digits": "aws",
    "aws rules digits": "aws",
    "aws veto digits --by ada": "aws",
    "aws redrive --all --dry-run": "aws",
    "aws replay --from 2026-11-21T00:00 --to 2026-11-22T00:00": "aws",
    "drill --yes": "aws",
    "drill --local": "localcloud",
    "profile bad": "",
    "config show": "",
    "init --agents": "",
    "rm bad --dry-run": "",
    "prune --keep 1 --dry-run": "",
    "doctor": "",
    "run --rule nowhere.py:Large -- true": "",
    "check nowhere-at-all": "",
}

KEPT = ("smdebug",)  # an entry point would name it still; tests/training_lib/rules/test_rule_file.py hides both


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [words]
    context = click.Context(command)
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [leaf for name, below in found if below is not None for leaf in leaves(below, (*words, name))]


def results(folder: Path, extras: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return what each command did where only these extras are installed."""
    hidden = [module for name, extra in EXTRAS.items() if name not in {*extras, *KEPT} for module in extra.modules]
    environ = {name: text for name, text in inherited().items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ",".join(hidden)],
        input=json.dumps([shlex.split(line) for line in COMMANDS]),
        cwd=folder,
        env={**environ, "HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("extras")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_run("bad", [1.0] * 3)
    job = {
        "TrainingJobName": "digits",
        "AlgorithmSpecification": {"TrainingImage": "me/mine", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    }
    (place / "job.json").write_text(json.dumps(job))
    (place / "log.csv").write_text("step,loss\n1,2.0\n2,1.0\n")
    return place


def test_every_command_is_tried() -> None:
    tried = {tuple(shlex.split(line)) for line in COMMANDS}
    missing = [leaf for leaf in leaves(main) if not any(line[: len(leaf)] == leaf for line in tried)]
    assert missing == []


@pytest.mark.parametrize(
    "extras",
    [
        pytest.param((), id="none"),
        pytest.param(("cli",), id="cli"),
        pytest.param(("cli", "aws"), id="cli-aws"),
        pytest.param(("cli", "torch", "parquet"), id="cli-torch-parquet"),
    ],
)
def test_no_command_fails_for_a_missing_extra(
    folder: Path, extras: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # the commands name paths as seen from here
    for result, need in zip(results(folder, extras), COMMANDS.values(), strict=True):
        line, text = " ".join(result["arguments"]), result["stderr"]
        if "cli" not in extras:
            assert (result["code"], text) == (
                2,
                f"The trackside command needs click and rich: {install_command('cli')}\n",
            )
            continue
        assert "Trackside made a mistake" not in text, line
        assert result["code"] != 70, line
        if need and need not in extras:
            assert result["code"] == 2, (line, result)
            assert text.startswith("Error: Extras: "), (line, text)
            assert f"  Try: {install_command(need)}\n" in text, line
        else:
            assert "is not installed" not in text, line


def test_the_packages_of_the_extras_are_those_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    declared = dict(re.findall(r"(?m)^(\w+) = \[(.*)\]$", table))
    for name, extra in EXTRAS.items():
        packages = [text.partition(";")[0].strip() for text in re.findall(r'"([^"]+)"', declared[name])]
        here = [text for text in packages if not text.startswith("tomli") or sys.version_info < (3, 11)]
        assert here == list(extra.packages or (extra.package,)), name
    unpublished = {name for name, extra in EXTRAS.items() if extra.folder}
    brought = set(re.findall(r"\w+", declared["all"].partition("[")[2]))
    assert brought == set(EXTRAS) - unpublished, "an index may hold another package by our names"


def test_no_text_advises_to_install_our_name_from_an_index() -> None:
    """The name on the public index is not ours: whoever registers it would be run by the advice."""
    ours = re.compile(
        r"pip install (?:-\S+ )*['\"]?trackside(?:-smdebug|-localaccount)?(?:\[|['\"\s`]|$)", re.MULTILINE
    )
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    texts = [name for name in listed if name.endswith((".md", ".py", ".toml")) and not name.startswith("CHANGELOG")]
    found = [name for name in texts if ours.search((ROOT / name).read_text(encoding="utf-8"))]
    assert found == []
