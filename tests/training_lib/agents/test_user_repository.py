"""The skill and the section of `AGENTS.md`: written once, and no text of others is touched."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.for_each import for_each
from trackside.agents.user_repository import SKILL_FILE, Outcome, section, write_for_agents
from trackside.cli import main

SKILL = ".agents/skills/trackside/SKILL.md"
WRITTEN, UPDATED, CURRENT, LEFT = Outcome


def outcomes(folder: Path, **more: str) -> dict[str, Outcome]:
    return {each.path: each.outcome for each in write_for_agents(folder, **more)}


OTHERS = {
    "nothing": "",
    "a page": "# Mine\n\nKeep this.\n",
    "without an end": "# Mine\n\nKeep this.",
    "line ends of Windows": "# Mine\r\n\r\nKeep this.\r\n",
    "other marks": "<!-- trackside end -->\n# Mine\n",
}


def test_text_of_others_stays(tmp_path: Path) -> None:
    @for_each({name: (name, text) for name, text in OTHERS.items()})
    def check(name: str, text: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "AGENTS.md").write_bytes(text.encode())
        assert outcomes(folder) == {SKILL: WRITTEN, "AGENTS.md": UPDATED}
        first = (folder / "AGENTS.md").read_bytes()
        assert first.startswith(text.encode())
        assert ("\r\n" in text) == (b"\r\n" in first)
        assert outcomes(folder) == {SKILL: CURRENT, "AGENTS.md": CURRENT}
        assert (folder / "AGENTS.md").read_bytes() == first

    check()


def test_a_repository_without_either(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {SKILL: WRITTEN, "AGENTS.md": WRITTEN}
    assert section(SKILL) in (tmp_path / "AGENTS.md").read_text()
    assert (tmp_path / SKILL).read_text().startswith(SKILL_FILE.read_text())


def test_what_was_changed_by_hand_stays(tmp_path: Path) -> None:
    write_for_agents(tmp_path)
    for path in (tmp_path / SKILL, tmp_path / "AGENTS.md"):
        path.write_text(path.read_text().replace("trackside check", "make check"))
    before = {path: path.read_text() for path in (tmp_path / SKILL, tmp_path / "AGENTS.md")}
    assert outcomes(tmp_path) == {SKILL: LEFT, "AGENTS.md": LEFT}
    assert {path: path.read_text() for path in before} == before


def test_what_an_older_trackside_wrote_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    old, digest = "## Old", hashlib.sha256(b"## Old").hexdigest()[:16]
    mark = f"<!-- trackside init {digest} -->"
    (tmp_path / "AGENTS.md").write_text(f"# Mine\n{mark}\n{old}\n<!-- trackside end -->\nKeep this.\n")
    (tmp_path / SKILL).parent.mkdir(parents=True)
    (tmp_path / SKILL).write_text(f"{old}\n{mark}\n")
    assert outcomes(tmp_path) == {SKILL: UPDATED, "AGENTS.md": UPDATED}
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.startswith("# Mine\n")
    assert text.endswith("\nKeep this.\n")
    assert old not in text


def test_a_mark_without_an_end_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("<!-- trackside init 0123456789abcdef -->\n# Mine\n")
    assert outcomes(tmp_path)["AGENTS.md"] is LEFT


def test_the_folders_of_skills(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    assert set(outcomes(tmp_path)) == {SKILL, ".claude/skills/trackside/SKILL.md", "AGENTS.md"}
    assert set(outcomes(tmp_path, skills="tools/skills/")) == {"tools/skills/trackside/SKILL.md", "AGENTS.md"}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("# Mine\n")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    write_for_agents(tmp_path)
    assert (tmp_path / "AGENTS.md").is_symlink()
    assert (tmp_path / "CLAUDE.md").read_text().startswith("# Mine\n\n<!-- trackside init")


def test_the_command_names_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", "--agents"])
    assert (result.exit_code, result.stdout) == (0, f"{SKILL}: written\nAGENTS.md: written\n")
    assert CliRunner().invoke(main, ["init"]).exit_code == 2
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe")
    broken = CliRunner().invoke(main, ["init", "--agents"])
    assert (broken.exit_code, broken.stdout) == (2, "")
    assert "AGENTS.md cannot be read or written: it is not UTF-8" in broken.stderr


def test_commands_and_tools_of_the_skill_exist() -> None:
    text = SKILL_FILE.read_text() + section(SKILL)
    assert re.match(r"---\nname: trackside\ndescription: .{100,1000}\n---\n", text)
    context = click.Context(main)
    for line in re.findall(r"`?trackside ([a-z].*)", text):
        words = line.split("`")[0].split(" -- ")[0].split()
        command: click.Command | None = main.get_command(context, words[0])
        assert command is not None, line
        if isinstance(command, click.Group):
            command = command.get_command(context, words[1])
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line
    assert len(text.splitlines()) < 150
