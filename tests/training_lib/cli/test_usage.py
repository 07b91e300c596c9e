"""Mistakes on the command line: one form for all, with problem, place and cure."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main


@pytest.fixture(autouse=True)
def _files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    write_run("20261122-train", [1.0])


def trackside(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="trackside")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(
            ["findings", "latets"], 3,
            "Error: There is no run 'latets'.\n"
            "  Why: It is neither a folder nor a name in .trackside/runs; the newest run is '20261122-train'.\n"
            "  Try: Did you mean 'latest'?\n", id="latest-misspelt",
        ),
        pytest.param(
            ["findings", "20261122"], 3,
            "Error: There is no run '20261122'.\n"
            "  Why: It is neither a folder nor a name in .trackside/runs; the newest run is '20261122-train'.\n"
            "  Try: Did you mean '20261122-train'?\n", id="beginning-of-a-run",
        ),
        pytest.param(
            ["run", "--rule", "overfit:patience=3", "--", "true"], 2,
            "Error: The choice of rules: Unknown parameter 'patience'.\n"
            "  Where: --rule overfit:patience=3\n"
            "  Try: Did you mean 'patience_evaluations'?\n", id="beginning-of-a-parameter",
        ),
        pytest.param(
            ["run", "--rul", "x", "--", "true"], 2,
            "Error: There is no option '--rul'.\n  Try: Did you mean '--rule'?\n", id="option-misspelt",
        ),
        pytest.param(
            ["run", "--zzz", "--", "true"], 2,
            "Error: There is no option '--zzz'.\n  Try: trackside run --help\n", id="option-unknown",
        ),
        pytest.param(
            ["run"], 2, "Error: The argument COMMAND... is missing.\n  Try: trackside run --help\n", id="no-argument"
        ),
        pytest.param(
            ["aws", "replay"], 2, "Error: The option --from is missing.\n  Try: trackside aws replay --help\n",
            id="no-option",
        ),
        pytest.param(
            ["run", "--out", "/etc/passwd", "--", "true"], 2,
            "Error: Directory '/etc/passwd' is a file.\n  Where: --out\n  Try: trackside run --help\n", id="a-file",
        ),
        pytest.param(
            ["run", "--grace", "-1", "--", "true"], 2,
            "Error: -1.0 is not in the range x>=0.\n  Where: --grace\n  Try: trackside run --help\n", id="range",
        ),
        pytest.param(
            ["run", "--report", "a.txt", "--", "true"], 2,
            "Error: 'a.txt' must end in .json, .sarif, .xml, which names its format.\n"
            "  Where: --report\n  Try: trackside run --help\n", id="report",
        ),
        pytest.param(
            ["values", "latest", "gradient/Net_fc.weight", "--step", "100000"], 3,
            "Error: 'gradient/Net_fc.weight' was not saved at step 100000.\n"
            "  Why: The nearest: 0. It holds 1 step, 0 to 0.\n"
            "  Try: --step 0, or run --save-interval N to save values more often\n", id="a-step-that-was-not-saved",
        ),
        pytest.param(
            ["export", "latest", "--to", "tensorboard", "/proc/tb"], 3,
            "Error: Cannot write /proc/tb/20261122-train/TRAIN/worker_0/events.out.tfevents.1700000000.trackside.\n"
            "  Why: No such file or directory.\n"
            "  Try: the export to another place\n", id="nowhere-to-write",
        ),
        pytest.param(
            ["runs", "nowhere"], 3,
            "Error: There is no folder 'nowhere'.\n  Why: Give a folder that holds runs, or s3://bucket/prefix.\n"
            "  Try: trackside runs   (lists the runs of this folder)\n", id="local-advice-for-a-local-folder",
        ),
        pytest.param(
            ["run", "--rule", "mine.py", "--", "true"], 2,
            "Error: --rule mine.py names a file, and no class in it.\n  Where: The choice of rules\n", id="no-class",
        ),
        pytest.param(
            ["run", "--out", ".trackside", "--", "true"], 2,
            "Error: .trackside is not empty.\n  Where: The run folder\n"
            "  Try: Name a new folder, or remove this one first.\n", id="a-folder-in-use",
        ),
        pytest.param(
            ["tensors", "/etc"], 3,
            "Error: Nothing that looks like a run lies at /etc.\n", id="a-folder-that-is-no-run",
        ),
        pytest.param(
            ["findings", "s3:/bucket/x"], 3,
            "Error: There is no run 's3:/bucket/x'.\n"
            "  Why: It is neither a folder nor a name in .trackside/runs; the newest run is '20261122-train'.\n"
            "  Try: Did you mean 's3://bucket/x'?\n", id="a-slash-too-few",
        ),
        pytest.param(
            ["findings", "gs://bucket/x"], 2,
            "Error: 'gs://bucket/x' has the scheme 'gs', which is not known.\n  Where: The location\n", id="scheme",
        ),
        pytest.param(
            ["findings", "latest", "--fail-on", "critcal"], 2,
            "Error: 'critcal' is not one of 'never', 'warning', 'critical'.\n"
            "  Where: --fail-on\n  Try: Did you mean 'critical'?\n", id="choice-misspelt",
        ),
        pytest.param(
            ["finding"], 2,
            "Error: There is no command 'finding'. Did you mean 'findings'?\n  Try: trackside --help\n", id="command",
        ),
        pytest.param(
            ["--verbos"], 2, "Error: There is no option '--verbos'.\n  Try: Did you mean '--verbose'?\n", id="top"
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_problem_place_and_cure(arguments: list[str], code: int, message: str) -> None:
    result = trackside(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(message)


@pytest.mark.parametrize("arguments", [["runs"], ["rules", "list"], ["tensors", "latest"], ["run", "--help"]])
def test_sound_usage_has_no_message(arguments: list[str]) -> None:
    result = trackside(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")


def test_advice_about_s3_is_for_places_in_s3() -> None:
    assert "s3://" not in trackside("tensors", "/etc").stderr.partition("  Try: ")[2]
