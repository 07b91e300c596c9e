"""The answers on the page of questions: put in their places, each question a known one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.query_answers import written
from trackside.contracts.questions.saved import QUESTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "query.md").read_text("utf-8")


def test_each_answer_stands_after_its_question() -> None:
    text = written(PAGE, {name: f"answer to {name}" for name in QUESTIONS})
    for name in QUESTIONS:
        assert f"```console\n$ trackside query {name}\nanswer to {name}\n```\n" in text
    assert text.count("\n## ") == PAGE.count("\n## ")
    assert max(map(len, text.partition("The answers are")[2].partition("\n\n")[0].splitlines())) <= 128


@pytest.mark.parametrize("text", ["", "# Another page\n", "The answers are those of nobody.\n"])
def test_another_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no sentence"):
        written(text, {"by-day": "x"})
