"""Settings of a project: the nearest file, variables, their order, and every mistake at once."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trackside.choosing.project_settings import KEYS, SETTINGS, ProjectSettings, SettingKind, read_settings
from trackside.choosing.rule_choice import choose_rules
from trackside.cli.run import command
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.environment import project_variable

PROJECT = '[project]\nname = "digits"\n\n'


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def values(settings: ProjectSettings) -> dict[str, Any]:
    return {key: (one.value, one.source) for key, one in settings.values.items()}


def test_each_setting_is_an_option_of_run_with_the_same_default() -> None:
    options = {parameter.name: parameter for parameter in command.params}
    for kind in SETTINGS:
        option = options.get(kind.key.replace("-", "_"))
        assert option is not None, (
            f"give `trackside run` an option --{kind.key} (cli/run.py), or take it out of SETTINGS"
        )
        if kind.default is not None and kind.key != "on-issue":  # whose option has none, to tell "not given" apart
            assert option.default == kind.default, f"--{kind.key} and SETTINGS have different defaults"


def test_each_setting_stands_in_the_table_of_its_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = {key for row in page.splitlines() if row.startswith("| `") for key in row.split("|")[1].split("`")[1::2]}
    missing = [f"| `{key}` | `{project_variable(key)}` | ... |" for key in KEYS if key not in named]
    assert not missing, f"add to the table of docs/configuration.md: {missing}"


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: str(kind.key))
def test_each_setting_has_a_variable(kind: SettingKind, tmp_path: Path) -> None:
    value = kind.default if kind.default is not None else 7
    found = read_settings(tmp_path, {project_variable(kind.key): str(value)})
    assert values(found) == {kind.key: (value, project_variable(kind.key))}


def test_without_a_file_and_variables_all_is_default(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", PROJECT)
    assert read_settings(tmp_path, {"TRACKSIDE_RUN": "runs/1", "PATH": "/bin"}) == ProjectSettings()


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        pytest.param("trackside.toml", 'on-issue = "stop"\ngrace = 5\n', "trackside.toml", id="own-file"),
        pytest.param(
            "pyproject.toml", f'{PROJECT}[tool.trackside]\non-issue = "stop"\ngrace = 5\n',
            "pyproject.toml, tool.trackside", id="pyproject",
        ),
    ],
)  # fmt: skip
def test_a_file_gives_values_also_from_above(tmp_path: Path, name: str, text: str, source: str) -> None:
    write(tmp_path, name, text)
    assert values(read_settings(tmp_path, {})) == {"on-issue": ("stop", source), "grace": (5.0, source)}
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    found = read_settings(below, {})
    assert found.file == tmp_path / name
    assert found.default_map() == {"on_issue": "stop", "grace": 5.0}


def test_the_nearest_file_counts_and_a_pyproject_without_our_table_does_not(tmp_path: Path) -> None:
    write(tmp_path, "trackside.toml", 'fail-on = "never"\n')
    write(tmp_path / "a", "pyproject.toml", f"{PROJECT}[tool.ruff]\nline-length = 120\n")
    assert read_settings(tmp_path / "a", {}).values["fail-on"].value == "never"
    write(tmp_path / "a", "trackside.toml", 'fail-on = "warning"\n')
    assert read_settings(tmp_path / "a", {}).values["fail-on"].value == "warning"


def test_a_variable_counts_more_than_the_file(tmp_path: Path) -> None:
    write(tmp_path, "trackside.toml", 'on-issue = "stop"\nsave-interval = 7\nskip = ["overfit"]\n')
    environ = {
        "TRACKSIDE_ON_ISSUE": "nothing",
        "TRACKSIDE_SET": "dead-relu.threshold_layer=0.6 overtraining.patience_evaluations=3",
        "TRACKSIDE_SKIP": "",
    }
    found = read_settings(tmp_path, environ)
    assert values(found) == {
        "on-issue": ("nothing", "TRACKSIDE_ON_ISSUE"),
        "save-interval": (7, "trackside.toml"),
    }
    assert [setting.rule for setting in found.rule_layers[-1].settings] == ["dead-relu", "overtraining"]
    assert [word.text for word in found.rule_layers[0].skip] == ["overfit"]


def test_rules_and_capture_of_a_file(tmp_path: Path) -> None:
    text = (
        'rule = ["loss-spike"]\nskip = ["overfit"]\nrules-file = "rules.json"\n'
        "[set.dead-relu]\nthreshold_layer = 0.6\n"
        '[[capture.collections]]\nname = "gradients"\nsave_interval = 50\n'
    )
    write(tmp_path, "trackside.toml", text)
    found = read_settings(tmp_path, {})
    assert found.rules_file == tmp_path / "rules.json"
    assert found.capture is not None
    assert [(c.name, c.schedule.save_interval) for c in found.capture.collections] == [("gradients", 50)]
    rules = choose_rules(found.rule_layers, catalogue=built_in_catalogue()).rules
    by_name = {rule.name: rule for rule in rules}
    assert "overfit" not in by_name
    assert "loss-spike" in by_name
    assert by_name["dead-relu"].parameters == {"threshold_layer": "0.6"}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param('skipp = ["x"]', ["trackside.toml, skipp: is not known. Did you mean 'skip'?"], id="unknown"),
        pytest.param(
            'on-issue = "halt"',
            ["trackside.toml, on-issue: must be one of stop, notify, nothing, but is 'halt'."], id="choice",
        ),
        pytest.param("grace = -1", ["trackside.toml, grace: must be a number of seconds from 0 on"], id="negative"),
        pytest.param("grace = true", ["trackside.toml, grace: must be a number"], id="truth-value"),
        pytest.param("save-interval = 1.5", ["trackside.toml, save-interval: must be a whole number"], id="half"),
        pytest.param("only = 5", ["trackside.toml, only: must be a list of texts."], id="no-list"),
        pytest.param("set.threshold = 5", ["trackside.toml, set.threshold: names no rule."], id="set-without-rule"),
        pytest.param("rules-file = 5", ["trackside.toml, rules-file: must be the path of a file."], id="no-path"),
        pytest.param(
            '[[capture.collections]]\nname = "gradients"\nsave_intervall = 5',
            ["trackside.toml, capture.collections[0].save_intervall", "Did you mean 'save_interval'?"], id="capture",
        ),
        pytest.param("grace = \nonly = []", ["trackside.toml: is no TOML", "line 1"], id="no-toml"),
        pytest.param(
            'skipp = []\ngrace = "x"\nonly = 5',
            ["3 problems", "trackside.toml, skipp", "trackside.toml, grace", "trackside.toml, only"], id="all-at-once",
        ),
    ],
)  # fmt: skip
def test_a_mistake_names_file_and_key(tmp_path: Path, text: str, places: list[str]) -> None:
    write(tmp_path, "trackside.toml", text)
    with pytest.raises(ConfigurationError) as raised:
        read_settings(tmp_path, {})
    for place in places:
        assert place in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("TRACKSIDE_FAIL_ON", "criticl", "TRACKSIDE_FAIL_ON: must be one of", id="choice"),
        pytest.param("TRACKSIDE_GRACE", "soon", "TRACKSIDE_GRACE: must be a number", id="number"),
        pytest.param("TRACKSIDE_SET", "threshold", "TRACKSIDE_SET: is not RULE.NAME=VALUE.", id="set"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_settings(tmp_path, {name: text})
    assert said in str(raised.value)


def test_python_3_10_reads_the_file_with_tomli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "trackside.toml", "grace = 5\n")
    expected = read_settings(tmp_path, {})
    monkeypatch.setitem(sys.modules, "tomllib", None)
    if find_spec("tomli") is not None:
        assert read_settings(tmp_path, {}) == expected
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(ConfigurationError, match="needs tomli, which is not installed"):
        read_settings(tmp_path, {})


def test_a_file_of_others_that_is_no_toml_or_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "[[[ no TOML, and none of our business")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pyproject.toml").symlink_to("pyproject.toml")  # a link to itself
    assert read_settings(tmp_path / "a", {}) == ProjectSettings()
