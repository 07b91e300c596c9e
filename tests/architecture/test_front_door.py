"""What a stranger meets first: workflows, templates, metadata, the list of benchmarks, the Makefile."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_docs import LINK, anchors
from tests.for_each import for_each

yaml = pytest.importorskip("yaml")
if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
PROJECTS = [ROOT / "pyproject.toml", *sorted((ROOT / "training_lib").glob("*/pyproject.toml"))]
FOR_PEOPLE = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "benchmarks/README.md")


def read_yaml(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def test_every_target_is_phony_and_explained() -> None:
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())  # type: ignore[index]
    assert phony == TARGETS
    assert not [name for name in TARGETS if not re.search(rf"^{name}:.*## \w", MAKEFILE, re.MULTILINE)]


def test_there_is_a_workflow_for_each_duty() -> None:
    assert {path.stem for path in WORKFLOWS} == {"check", "test", "docs", "release", "image"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_bounded_has_few_rights_and_runs_what_exists(path: Path) -> None:
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 150, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            command = step.get("run", "")
            for target in re.findall(r"\bmake ([a-z-]+)", command):
                assert target in TARGETS
            for script in re.findall(r"(?<![\w/])(\.ci/\w+|tests/[\w/]+\.py|rule_containers/[\w/]+)", command):
                assert (ROOT / script).exists(), script


def test_only_publishing_may_write() -> None:
    writing = {
        f"{path.stem}.{name}"
        for path in WORKFLOWS
        for name, job in read_yaml(path)["jobs"].items()
        if "write" in job.get("permissions", {}).values()
    }
    assert writing == {"docs.publish", "release.publish", "image.evaluator"}


def test_the_matrix_has_every_python_that_is_promised() -> None:
    tested = set(
        read_yaml(ROOT / ".github/workflows/test.yml")["jobs"]["other-pythons"]["strategy"]["matrix"]["python"]
    )
    tested.add("3.11")
    for project in PROJECTS:
        classifiers = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["classifiers"]
        promised = {each.rpartition(" ")[2] for each in classifiers if "Python :: 3." in each}
        assert promised == tested, project


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_every_wheel_says_who_made_it_and_where_it_lives(path: Path) -> None:
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    ours = tomllib.loads(PROJECTS[0].read_text(encoding="utf-8"))["project"]
    assert project["authors"] == ours["authors"]
    assert project["urls"] == ours["urls"]
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} <= set(project["urls"])
    assert project["keywords"]
    assert "Typing :: Typed" in project["classifiers"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_template_asks_something(path: Path) -> None:
    template = read_yaml(path)
    if path.stem == "config":
        return
    assert {"name", "description", "body"} <= set(template)
    assert all(field["attributes"]["label"] for field in template["body"])


def test_the_hooks_before_a_commit_run_what_is_installed() -> None:
    (repository,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in repository["hooks"]:
        for word in hook["entry"].split():
            assert not word.startswith(".ci/") or (ROOT / word).is_file()


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_links_of_the_pages_at_the_root_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in (one or other for one, other in LINK.findall(page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


SCRIPTS = [
    path.relative_to(ROOT)
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]


@for_each({str(script): (script,) for script in SCRIPTS})
def test_every_benchmark_stands_in_the_list(script: Path) -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    module = ".".join(script.with_suffix("").parts).removesuffix(".__main__")
    forms = [f"python {script}", f"python -m {module} ", f"python -m {module}`", f"`{script.name}`"]
    assert any(form in text for form in forms)
