"""The published schemas: whatever we write is what they describe, and what is no verdict is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

from tests.training_lib.contracts.test_verdict import verdicts
from trackside.contracts.event import TrainingJob, evaluation_of
from trackside.contracts.schemas import EVENT_FILE, VERDICT_FILE, as_file, event_schema, verdict_schema
from trackside.contracts.verdict import Verdict

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "verdicts.md"
JOB = TrainingJob("job-1", "arn:aws:sagemaker:us-east-1:123456789012:training-job/job-1")


def closed(schema: Any) -> Any:
    """The schema, taking no name that it does not tell of."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **found} if "properties" in schema else found


VERDICT, EVENT = Draft202012Validator(verdict_schema()), Draft202012Validator(event_schema())
CLOSED_VERDICT, CLOSED_EVENT = (
    Draft202012Validator(closed(verdict_schema())),
    Draft202012Validator(closed(event_schema())),
)


@pytest.mark.parametrize(
    ("file", "schema"),
    [pytest.param(VERDICT_FILE, verdict_schema, id="verdict"), pytest.param(EVENT_FILE, event_schema, id="event")],
)
def test_the_files_are_current_and_schemas(file: Path, schema: Callable[[], dict[str, Any]]) -> None:
    assert file.read_text(encoding="utf-8") == as_file(schema()), "run: python docs/generate.py"
    Draft202012Validator.check_schema(json.loads(file.read_text(encoding="utf-8")))


@given(verdict=verdicts)
def test_every_verdict_is_one_and_every_name_of_it_is_told(verdict: Verdict) -> None:
    CLOSED_VERDICT.validate(json.loads(verdict.to_json()))


@given(verdict=verdicts)
def test_so_is_every_event(verdict: Verdict) -> None:
    event = evaluation_of(verdict, job=JOB, run_uri="s3://bucket/run")
    CLOSED_EVENT.validate(json.loads(json.dumps(event.to_detail())))


FINDING = {
    "subject": "gradient/Net_fc.weight",
    "worker": "worker_0",
    "step": 20,
    "since_step": 10,
    "measure": "mean |gradient|",
    "observed": 3.1e-12,
    "relation": "<",
    "threshold": 1e-07,
    "statistics": {"max": "Infinity"},
    "series": [[10, 1e-11], [20, "NaN"]],
    "place": "train.py:41",
}
GOOD = {
    "version": 2,
    "id": "digits/gone/issue-found",
    "run": "digits",
    "rule": "vanishing-gradient",
    "configuration": "gone",
    "outcome": "issue-found",
    "severity": "critical",
    "step": 20,
    "since_step": 10,
    "message": "Gradients have become too small.",
    "detected_at": 1.8e9,
    "affected": 1,
    "findings": [FINDING],
    "what_to_do": ["Normalise."],
    "actions": ["Notify"],
    "tensor_key": "",
    "suspicions": [{"cause": "vanishing-gradients", "because": "", "what": "the gradients vanish"}],
    "state": "opened",
    "occurrence": 1,
    "group": "digits/gone/issue-found",
}
_GONE = object()


def changed(*path: str | int, to: Any = _GONE) -> dict[str, Any]:
    """A good verdict with one value changed, or taken away."""
    document: Any = copy.deepcopy(GOOD)
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    if to is _GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return dict(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(GOOD, id="good"),
        pytest.param(changed("findings", to=[]), id="no-finding"),
        pytest.param(changed("findings", 0, "observed", to="-Infinity"), id="no-finite-number"),
        pytest.param(changed("findings", 0, "observed", to=3), id="whole-number"),
        pytest.param(changed("findings", 0, "place"), id="no-place"),
        pytest.param(changed("findings", 0, "statistics", to={}), id="no-statistics"),
        pytest.param(changed("suspicions", to=[]), id="no-suspicion"),
        pytest.param(changed("actions", to=[]), id="no-action"),
        pytest.param(changed("state", to="recovered"), id="recovered"),
        pytest.param(changed("outcome", to="not-evaluated"), id="not-evaluated"),
        pytest.param({**GOOD, "of_a_newer_version": 1}, id="a-further-name"),
        pytest.param(changed("findings", 0, "of_a_newer_version", to=1), id="a-further-name-within"),
        pytest.param(changed("step", to=0), id="first-step"),
        pytest.param(changed("message", to=""), id="no-words"),
    ],
)
def test_what_is_a_verdict(document: dict[str, Any]) -> None:
    VERDICT.validate(document)
    Verdict.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([], id="no-object"),
        pytest.param(changed("version", to=1), id="older"),
        pytest.param(changed("outcome", to="issues-found"), id="outcome"),
        pytest.param(changed("severity", to="error"), id="severity"),
        pytest.param(changed("step", to=-1), id="step"),
        pytest.param(changed("step", to="20"), id="step-as-text"),
        pytest.param(changed("findings", to=[{}]), id="empty-finding"),
        pytest.param(changed("findings", 0, "observed", to="huge"), id="number"),
        pytest.param(changed("findings", 0, "relation", to=">="), id="relation"),
        pytest.param(changed("findings", 0, "series", to=[[10]]), id="half-a-pair"),
        pytest.param(changed("findings", 0, "series", to=[[10, 1, 2]]), id="three-in-a-pair"),
        pytest.param(changed("suspicions", 0, "cause", to="bad-luck"), id="cause"),
        pytest.param(changed("actions", to=["Shout"]), id="action"),
        pytest.param(changed("occurrence", to=0), id="occurrence"),
        *[pytest.param(changed(name), id=f"without-{name}") for name in GOOD],
    ],
)
def test_what_is_none(document: Any) -> None:
    assert not VERDICT.is_valid(document)


def test_a_new_field_is_optional() -> None:
    lacking = set(verdict_schema()["required"]) - set(GOOD)
    assert not lacking, f"declare {lacking} with optional=True: lines that were written before lack it"


def names_of(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        yield from schema.get("properties", ())
        for inner in schema.values():
            yield from names_of(inner)


def test_the_page_tells_of_every_name_of_a_verdict() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in names_of(verdict_schema()) if f"`{name}`" not in page] == []


def test_the_example_of_the_page_is_a_verdict() -> None:
    _, _, after = PAGE.read_text(encoding="utf-8").partition("```json\n")
    example = json.loads(after.partition("```")[0])
    CLOSED_VERDICT.validate(example)
    assert json.loads(Verdict.from_json(json.dumps(example)).to_json()) == example


def test_the_program_of_the_page_validates_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, _, after = PAGE.read_text(encoding="utf-8").partition("```python\n")
    program = compile(after.partition("```")[0], "verdicts.md", "exec")
    lines = Path("run/rule-output/verdicts.jsonl")
    lines.parent.mkdir(parents=True)
    lines.write_text(f"{json.dumps(GOOD)}\n")
    exec(program, {})  # noqa: S102 - the page's own code is what is tested
    lines.write_text(f"{json.dumps(GOOD)}\n{json.dumps(changed('outcome'))}\n")
    with pytest.raises(ValidationError, match="'outcome' is a required property"):
        exec(program, {})  # noqa: S102
