"""The site of the pages: all on a shelf, two clicks from the first, every link alive, nothing fetched."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs import generate
from tests.architecture.test_docs import FENCE, LINK
from tests.patience import HANGS_SECONDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SHELVES = ("use.md", "operate.md", "extend.md", "evidence.md")
SETTINGS = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def links(page: Path) -> set[Path]:
    """The pages that a page links to."""
    targets = [one or other for one, other in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))]
    files = [(page.parent / target.partition("#")[0]).resolve() for target in targets if ":" not in target]
    return {file for file in files if file.suffix == ".md"}


def test_every_page_is_two_clicks_from_the_first() -> None:
    first = links(DOCS / "index.md")
    second = set[Path]().union(*(links(page) for page in first))
    far = set(PAGES) - {DOCS / "index.md"} - first - second
    assert not far, sorted(str(page.relative_to(DOCS)) for page in far)


def in_navigation(entries: object) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for entry in entries.values():
            yield from in_navigation(entry)
    elif isinstance(entries, list):
        for entry in entries:
            yield from in_navigation(entry)


def test_the_navigation_has_the_pages_of_each_shelf() -> None:
    shelves = {name: set(in_navigation(pages)) for entry in SETTINGS["nav"][1:] for name, pages in entry.items()}
    assert [f"{name.lower()}.md" for name in shelves] == list(SHELVES)
    placed = [page for entry in SETTINGS["nav"] for page in in_navigation(entry)]
    assert len(placed) == len(set(placed)), "a page stands on two shelves"
    assert all((DOCS / page).is_file() for page in placed)
    assert not {str(page.relative_to(DOCS)) for page in PAGES} - set(placed), "pages without a shelf"


def test_a_page_that_a_shelf_lists_is_in_the_navigation(tmp_path: Path) -> None:
    for shelf in SHELVES:
        (tmp_path / shelf).write_text("# Shelf\n\n## Read\n\n- [One](one.md): it\n\nSee [two](two.md).\n")
    (tmp_path / "use.md").write_text("# Use\n\n## All\n\n- [Rules](rules/index.md): all\n\n## None\n")
    (tmp_path / "rules").mkdir()
    for name in ("index", "b", "a"):
        (tmp_path / "rules" / f"{name}.md").write_text(f"# {name}\n")
    settings = tomllib.loads(generate.with_navigation('site = 1\nnav = [\n  "old.md",\n]\nend = 2\n', tmp_path))
    assert (settings["site"], settings["end"]) == (1, 2)
    placed = list(in_navigation(settings["nav"]))
    rules = ["rules/index.md", "rules/a.md", "rules/b.md"]
    assert placed == ["index.md", "use.md", *rules, "operate.md", "one.md", "extend.md", "evidence.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    pytest.importorskip("zensical", reason="the site is built under the main Python only")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    (folder / "training_lib").symlink_to(ROOT / "training_lib")
    (folder / "zensical.toml").write_text((ROOT / "zensical.toml").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


class Addresses(HTMLParser):
    """The addresses in a page: links, what is loaded, and the names of its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        elif tag == "link" and values.get("rel") in {"canonical", "prev", "next"}:
            return
        elif address := values.get("src") or (values.get("href") if tag == "link" else None):
            self.loaded.append(address)


def test_every_link_of_the_site_is_alive_and_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = {page.resolve(): Addresses(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) >= len(PAGES)
    broken = []
    for page, addresses in pages.items():
        for address in [*addresses.links, *addresses.loaded]:
            parts = urlsplit(address)
            if parts.scheme in {"http", "https", "mailto"} and address in addresses.links:
                continue  # another site, for a reader who clicks
            if parts.scheme == "data":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            alive = target.is_file() and not parts.scheme
            if alive and parts.fragment and target in pages:
                alive = unquote(parts.fragment) in pages[target].anchors
            if not alive:
                broken.append(f"{page.relative_to(site.resolve())}: {address}")
    assert not broken, broken[:20]


def test_the_python_interface_has_every_public_name(site: Path) -> None:
    names = re.findall(r"^::: (\S+)$", (DOCS / "reference" / "python.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown = Addresses(site / "reference" / "python.html").anchors
    assert names
    assert not [name for name in names if name not in shown]


def test_no_source_of_ours_is_published(site: Path) -> None:
    assert not list(site.rglob("*.py"))
