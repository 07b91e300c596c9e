"""Rules of the user's own from a Python file: found, built, and refused with what would work."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.contracts.action import Action
from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.extras import install_command
from trackside.rules import rule_file
from trackside.rules.catalogue import build_rules
from trackside.rules.rule import Rule, is_rule
from trackside.rules.rule_file import load_rule, settled
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import fake_trial

OURS = """
from dataclasses import dataclass
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter

@dataclass(frozen=True)
class LossTooLarge(Rule):
    \"\"\"The loss is too large.\"\"\"
    rule_id = "loss-too-large"; watches = ("losses",); save_interval = 7; severity = Severity.INFO; since = "1"
    what_to_do = ("Wait.",)
    limit: float = parameter(3.0, "the largest loss allowed", minimum=0)
    def check(self, window):
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", last=1):
                if column.values[-1] > self.limit:
                    yield Finding(name, window.step, window.step, "loss", column.values[-1], ">", self.limit)

class Unfinished(Rule):
    pass

class Other:
    pass

number = 3
"""
LOSS = "CrossEntropyLoss_output_0"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    def write_file(text: str) -> str:
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        return str(file)

    return write_file


def requested(source: str, name: str = "LossTooLarge", **parameters: str) -> RuleConfiguration:
    return RuleConfiguration(name, source=source, parameters=parameters)


def fired(rule: Rule) -> list[int]:
    trial = fake_trial({LOSS: {0: 1.0, 7: 4.0, 14: 9.0}})
    return [f.step for step in trial.steps() for f in rule.check(trial.window(step, now=0.0))]


def test_a_class_of_ours_is_built_with_its_parameters(write: Callable[[str], str]) -> None:
    assert fired(load_rule(requested(write(OURS)))) == [7, 14]
    assert fired(load_rule(requested(write(OURS), limit="5"))) == [14]


def test_the_parameters_may_name_file_and_class_as_sagemaker_does(write: Callable[[str], str]) -> None:
    parameters = {"source_s3_uri": write(OURS), "rule_to_invoke": "LossTooLarge", "limit": "5"}
    assert fired(load_rule(RuleConfiguration("whatever", parameters=parameters))) == [14]


def test_a_request_may_mix_them_with_rules_of_the_catalogue(write: Callable[[str], str]) -> None:
    request = RuleRequest(
        (RuleConfiguration("exploding-tensor"), requested(write(OURS)), requested(write(OURS), limit="5"))
    )
    request = RuleRequest((*request.rules[:2], RuleConfiguration("LossTooLarge", name="b", source=write(OURS))))
    built = build_rules(request)
    assert [configured.configuration for configured in built] == list(request.rules)
    assert [configured.rule.rule_id for configured in built] == ["exploding-tensor", "loss-too-large", "loss-too-large"]


BARE = """
from dataclasses import dataclass
from trackside.contracts.verdict import Finding
from trackside.rules.rule import Rule, parameter
"""
CHECK = """
    def check(self, window):
        yield Finding("x", window.step, window.step, "m", 1.0, ">", 0.0)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            f"class Mine(Rule):\n    limit: float = parameter(1.0, 'how large')\n{CHECK}",
            ("its rule_id", "its watches", "no dataclass, so these are no parameters of it: limit"),
            id="no-dataclass",
        ),
        pytest.param(
            f"@dataclass(frozen=True)\nclass Mine(Rule):\n    rule_id = 'mine'\n    limit: float = 1.0\n{CHECK}",
            ("its watches", "`parameter`: limit"),
            id="a-plain-field",
        ),
        pytest.param(
            f"@dataclass(frozen=True)\nclass Mine(Rule):\n    rule_id = 'mine'\n    watches = ('losses',)\n{CHECK}",
            (),
            id="the-least-that-is-enough",
        ),
    ],
)
def test_all_that_a_rule_of_ours_lacks_is_said_at_once(
    write: Callable[[str], str], text: str, said: tuple[str, ...]
) -> None:
    source = write(BARE + text)
    if not said:
        rule = load_rule(requested(source, "Mine"))
        assert fired(rule) == [0, 7, 14]
        assert rule.describe().save_interval == 500
        return
    with pytest.raises(ConfigurationError) as raised:
        load_rule(requested(source, "Mine"))
    assert len(raised.value.problems) == len(said)
    for problem, part in zip(raised.value.problems, said, strict=True):
        assert part in problem.what
        assert problem.fix


def test_one_error_lists_what_is_wrong_with_every_file_and_rule(write: Callable[[str], str], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.py")
    request = RuleRequest(
        (
            RuleConfiguration("exploding-tensr"),
            requested(missing),
            requested(write(OURS), "Nobody"),
            requested(write(OURS), limit="-1"),
            RuleConfiguration("x", parameters={"source_s3_uri": "s3://b/mine.py"}),
        )
    )
    with pytest.raises(ConfigurationError) as raised:
        build_rules(request)
    assert [problem.where for problem in raised.value.problems] == [
        "rules",
        missing,
        str(tmp_path / "mine.py"),
        f"{tmp_path / 'mine.py'}: loss-too-large.limit",
        "x",
    ]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        pytest.param(OURS, "LossToLarge", "no class 'LossToLarge'. Did you mean 'LossTooLarge'", id="misspelt"),
        pytest.param(OURS, "Zebra", "no class 'Zebra'. Known: LossTooLarge", id="no such class"),
        pytest.param(OURS, "", "no class ''", id="no name"),
        pytest.param(OURS, "number", "'number' is no class", id="a number"),
        pytest.param(OURS, "Other", r"'Other' is not a rule: a class that inherits", id="another class"),
        pytest.param(OURS, "Unfinished", "'Unfinished' does not define check", id="abstract"),
        pytest.param("x = 1", "Rule", "holds no class 'Rule'. The file holds no rule class", id="nothing in it"),
        pytest.param("x = 1\n\ny = = 2", "Rule", r"line 3: is not Python", id="syntax"),
        pytest.param("x = '\0'", "Rule", "null bytes", id="null bytes"),
        pytest.param("\n\n1 / 0", "Rule", "line 3: raised ZeroDivisionError: division by zero", id="raises"),
        pytest.param("def f():\n  1 / 0\nf()", "Rule", "line 2: raised ZeroDivisionError", id="raises in a function"),
        pytest.param("import sys\nsys.exit(3)", "Rule", "line 2: raised SystemExit: 3", id="exits"),
        pytest.param("\nimport zebras", "Rule", "line 2: .*No module named 'zebras'.*Install zebras", id="no module"),
        pytest.param("from trackside.rules.rule import Rule", "Rule", "'Rule' does not define check", id="the base"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_work_is_refused(write: Callable[[str], str], text: str, name: str, message: str) -> None:
    source = write(text)
    before = set(sys.modules)
    with pytest.raises(ConfigurationError, match=message) as raised:
        load_rule(requested(source, name))
    assert source in str(raised.value)
    if "class" not in message and "define" not in message:
        assert set(sys.modules) == before


def test_the_module_of_a_file_that_worked_stays_when_it_breaks_later(write: Callable[[str], str]) -> None:
    rule = load_rule(requested(write(OURS)))
    with pytest.raises(ConfigurationError):
        load_rule(requested(write("1 / 0")))
    assert fired(rule) == [7, 14]
    assert vars(sys.modules[type(rule).__module__])["LossTooLarge"] is type(rule)


def test_the_file_is_not_run_as_a_program_and_nothing_is_written_beside_it(
    write: Callable[[str], str], tmp_path: Path
) -> None:
    load_rule(requested(write(OURS + "\nif __name__ == '__main__':\n    raise SystemExit\n")))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


class _Bucket:
    """`open_store` for one bucket in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.requested = MemoryStore(), list[str]()
        monkeypatch.setattr(rule_file, "open_store", self)

    def __call__(self, uri: str) -> MemoryStore:
        self.requested.append(uri)
        return self.store


def test_a_file_in_s3_is_fetched_and_its_lines_show_in_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = _Bucket(monkeypatch)
    bucket.store.put("mine.py", OURS.replace("for name in", "1 / 0\n        for name in").encode())
    rule = load_rule(requested("s3://bucket/rules/mine.py"))
    assert bucket.requested == ["s3://bucket/rules"]
    with pytest.raises(ZeroDivisionError) as raised:
        fired(rule)
    shown = "".join(traceback.format_exception(raised.value))
    assert 's3://bucket/rules/mine.py", line 13, in check\n    1 / 0' in shown


def test_a_file_that_is_not_in_s3_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _Bucket(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"s3://bucket/mine\.py: cannot be read") as raised:
        load_rule(requested("s3://bucket/mine.py"))
    assert "s3:// URI of a Python file" in str(raised.value)


def test_what_the_rule_says_that_it_needs_is_settled_before_the_training(
    write: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(OURS)
    monkeypatch.chdir(tmp_path)
    configuration = RuleConfiguration("LossTooLarge", source="mine.py", actions=(Action.NOTIFY,))
    found = settled(configuration)
    assert found.source == str(tmp_path / "mine.py")
    assert found.collections == (CollectionRequest("losses", Schedule(7)),)
    assert found.actions == (Action.NOTIFY,)
    own = (CollectionRequest("losses", Schedule(1)),)
    assert settled(RuleConfiguration("LossTooLarge", source="mine.py", collections=own)).collections == own


def test_without_the_drop_in_a_rule_of_smdebug_says_what_to_install(write: Callable[[str], str]) -> None:
    """In a process of its own, in which neither the names nor the adapter can be found."""
    source = write(
        "import os\nfrom smdebug.rules import Rule\nclass Mine(Rule):\n    def invoke_at_step(self, step): ..."
    )
    code = f"""
import importlib.metadata, sys
from trackside.rules import rule_file
from trackside.contracts.rule_request import RuleConfiguration
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "smdebug":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
importlib.metadata.entry_points = lambda group: ()
try:
    rule_file.load_rule(RuleConfiguration("Mine", source={source!r}))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "line 2: it is a rule of smdebug, whose names are not installed." in done.stdout
    assert install_command("smdebug") in done.stdout


def test_an_adapter_that_cannot_be_loaded_is_named(
    write: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "haunted_house-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haunted-house\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[trackside.rule_adapters]\nghosts = no_such_module:adapter\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"ghosts: The adapter 'no_such_module:adapter' cannot be loaded"):
        load_rule(requested(write(OURS)))


def test_a_rule_is_a_class_that_can_be_built() -> None:
    assert [is_rule(member) for member in (Rule, list[float], 3, Path)] == [False] * 4
