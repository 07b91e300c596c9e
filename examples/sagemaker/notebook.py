"""The post's code with the changes of docs/sagemaker-sdk.md, which are applied as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

SAMPLE = Path(__file__).with_name("sample.txt")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "sagemaker-sdk.md"
SCRIPT = "# train.py"  # how the one cell begins that is a file of its own


class ChangeMisfit(ValueError):
    """A change of the page does not fit the post."""


def cells() -> tuple[str, ...]:
    """All code of the post, changed, in its order. Errors: `ChangeMisfit`."""
    text = SAMPLE.read_text("utf-8")
    for change in changes(PAGE.read_text("utf-8")):
        text = changed(text, change)
    return tuple(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def changes(page: str) -> list[list[str]]:
    """The lines of each block of the page that is a diff."""
    return [block.splitlines() for block in re.findall(r"```diff\n(.*?)```", page, re.DOTALL)]


def changed(text: str, change: list[str]) -> str:
    """The text with the one place changed that the diff shows. Errors: `ChangeMisfit`."""
    old = "".join(f"{line[1:]}\n" for line in change if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in change if line[:1] != "-")
    if text.count(old) != 1:
        raise ChangeMisfit(f"The post has these lines {text.count(old)} times, not once:\n{old}")
    return text.replace(old, new)
