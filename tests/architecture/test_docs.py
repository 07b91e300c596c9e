"""The documentation: generated pages are current, everything has a page, links lead somewhere."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs import generate, rooms
from tests.for_each import for_each
from trackside.cli import main as cli
from trackside.rules.catalogue import built_in_rules

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if page.is_file())
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<!`)`([\w.-]+(?:/[\w.-]+)*)(?:::\w+)?`(?!`)")
BY_COMMAND = re.compile(
    r"<!-- (?!end|/).*?-->\n.*?(?=<!-- (?:end|/|End|rehearsed: end))|<!-- What follows is written by .*", re.DOTALL
)
GENERATED = ("docs/rules/", "docs/reference/", "docs/permissions.md")
FOLDERS = (
    "docs",
    "tests",
    "benchmarks",
    "training_lib",
    "lambdas",
    "stacks",
    "rule_containers",
    "examples",
    "findings",
    ".ci",
)
MOST_PAGES, MOST_WORDS, MOST_DECISIONS = 80, 60_000, 35  # by hand; words of pages, decisions left out
OF_OTHERS = {  # files of a reader, of another project, or an example of a name
    "large_gradients.py",
    "ownership.py",
    "whose.py",
    "tests/pytorch",
    "tests/analysis",
    "tests/core",
    "tests/rules",
    "tests/profiler/core",
    "tests/xgboost",
    "tests/mxnet",
    "tests/mxnet/test_spot_training.py",
}
every_page = for_each({str(page.relative_to(ROOT)): (page,) for page in PAGES})
FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)


def test_the_generated_files_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_check_names_what_is_stale_missing_or_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "RULES", tmp_path)
    pages = {tmp_path / "current.md": "a", tmp_path / "stale.md": "b", tmp_path / "missing.md": "c"}
    for name, text in {"current.md": "a", "stale.md": "old", "left_over.md": "d"}.items():
        (tmp_path / name).write_text(text)
    stale = generate.stale_files(pages)
    assert [path.name for path in stale] == ["left_over.md", "missing.md", "stale.md"]
    generate.write(pages, stale)
    assert generate.stale_files(pages) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current.md", "missing.md", "stale.md"]


def test_a_stale_file_fails_the_check_and_says_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "RULES", tmp_path / "rules")
    monkeypatch.setattr(generate, "generate", lambda: {tmp_path / "rules" / "x.md": "text"})
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "rules/x.md is not current.\nMend with: python docs/generate.py\n"
    assert not (tmp_path / "rules").exists(), "the check writes nothing"
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert generate.main(["--chekc"]) == 2


def test_generating_twice_gives_the_same() -> None:
    assert generate.generate() == generate.generate()


@for_each({rule_id: (rule_id,) for rule_id in built_in_rules()})
def test_every_rule_has_a_page_and_stands_in_the_index(rule_id: str) -> None:
    page = (ROOT / "docs" / "rules" / f"{rule_id}.md").read_text(encoding="utf-8")
    assert f"\n# {rule_id}\n" in page
    assert f"]({rule_id}.md)" in (ROOT / "docs" / "rules" / "index.md").read_text(encoding="utf-8")
    for parameter in built_in_rules()[rule_id].parameters():
        assert f"| `{parameter.name}` |" in page


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, f"{name} {child} is listed but cannot be found"
            yield from commands(found, f"{name} {child}")


@for_each({name: (name, command) for name, command in commands(cli, "trackside")})
def test_every_command_has_help_and_a_section(name: str, command: click.Command) -> None:
    assert command.help, f"{name} has no help"
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in page
    unexplained = [p.name for p in command.params if isinstance(p, click.Option) and not p.hidden and not p.help]
    assert not unexplained, f"options without help: {unexplained}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in (one or other for one, other in LINK.findall(text)):
        if re.match(r"[a-z]+:", target):
            continue  # another site: tests have no network
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@every_page
def test_every_row_of_a_table_has_the_cells_of_its_header(page: Path) -> None:
    width = None
    for number, line in enumerate(FENCE.sub("", page.read_text(encoding="utf-8")).splitlines(), start=1):
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert None in (cells, width) or cells == width, f"{page.name}:{number}: {line}"
        width = cells


def written_by_hand(page: Path) -> str:
    """The text of a page without the parts that a command writes."""
    return BY_COMMAND.sub("", page.read_text(encoding="utf-8"))


@functools.cache
def tails() -> frozenset[str]:
    """Each file's path and all its ends: `a/b/c.py`, `b/c.py`, `c.py`."""
    files = [file.relative_to(ROOT) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return frozenset("/".join(file.parts[at:]) for file in files for at in range(len(file.parts)))


BY_HAND = [page for page in PAGES if not str(page.relative_to(ROOT)).startswith(GENERATED)]


def every_path_named_exists(page: Path) -> None:
    named = set(NAMED.findall(FENCE.sub("", written_by_hand(page)))) - OF_OTHERS
    ours = {path for path in named if path.split("/")[0] in FOLDERS and "/" in path}
    modules = {path for path in named if path.endswith(".py")} - ours
    lost = {path for path in ours if not ((ROOT / path).exists() or (ROOT / "tests" / path).exists())} | (
        modules - tails()
    )
    assert not lost


test_every_path_named_exists = for_each(
    {str(page.relative_to(ROOT)): (page,) for page in (*BY_HAND, ROOT / "CONTRIBUTING.md")}
)(every_path_named_exists)


def test_a_lost_path_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`capture/ground/guard.py`, `capture/gard.py`, `docs/capture.md`, `docs/captured.md`\n")
    with pytest.raises(AssertionError, match=r"gard\.py"):
        every_path_named_exists(page)
    with pytest.raises(AssertionError, match=r"captured\.md"):
        every_path_named_exists(page)


@pytest.mark.parametrize(
    "folder", [rooms.LIBRARY, rooms.LIBRARY / "frameworks" / "pytorch"], ids=lambda path: path.name
)
def test_every_room_stands_in_architecture(folder: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not {room for room in found - {"__init__"} if f"| `{room}` |" not in page}


def words_of(page: Path) -> int:
    """The words that a person wrote for a person: no code, no output, no table of a command."""
    return len(re.sub(r"<[^>]+>", "", FENCE.sub("", written_by_hand(page))).split())


def test_the_paper_stays_small() -> None:
    decisions = [page for page in BY_HAND if page.parent.name == "decisions" and page.name != "index.md"]
    others = [page for page in BY_HAND if page.parent.name != "decisions" and page.name != "README.md"]
    words = sum(words_of(page) for page in others)
    assert len(decisions) <= MOST_DECISIONS, "merge it into one that is there, or put its reason into a manual"
    assert len(others) <= MOST_PAGES, "add to a page that is there"
    assert words <= MOST_WORDS, f"{words} words: delete before you shorten"
