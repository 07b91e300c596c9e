from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.contracts.verdict import Verdict
from trackside.runs.verdict_feed import VerdictFeed, read_verdicts

FIRST, SECOND = issue(), no_issue()
LINES = f"{FIRST.to_json()}\n{SECOND.to_json()}\n".encode()


def test_each_verdict_is_news_once(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    feed = VerdictFeed(path)
    assert feed.news() == ()
    path.write_text(FIRST.to_json() + "\n")
    assert feed.news() == (FIRST,)
    assert feed.news() == ()
    with path.open("a") as file:
        file.write(SECOND.to_json() + "\n")
    assert feed.news() == (SECOND,)
    assert feed.verdicts == (FIRST, SECOND)


def test_what_a_restarted_evaluator_says_again_is_not_news(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(LINES)
    feed = VerdictFeed(path)
    assert len(feed.news()) == 2
    path.write_bytes(LINES + LINES)
    assert feed.news() == ()


def test_a_file_that_was_replaced_by_a_longer_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text(FIRST.to_json() + "\n")
    feed = VerdictFeed(path)
    feed.news()
    other = tmp_path / "other"
    other.write_bytes(LINES)
    other.replace(path)
    assert feed.news() == (SECOND,)


def test_a_file_that_became_shorter_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(LINES)
    feed = VerdictFeed(path)
    feed.news()
    path.write_text(issue("c").to_json() + "\n")
    assert [verdict.rule_id for verdict in feed.news()] == ["c"]


def test_a_line_that_is_no_verdict_is_logged_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_verdicts(b"not json\n" + LINES + b'{"run": 1}\n\xff\xfe\n') == (FIRST, SECOND)
    assert len(caplog.records) == 3


@given(st.lists(st.integers(0, len(LINES)), max_size=6))
def test_wherever_a_write_is_cut_each_verdict_arrives_once_and_whole(cuts: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts.jsonl"
        feed = VerdictFeed(path)
        seen: list[Verdict] = []
        for end in (*sorted(cuts), len(LINES)):
            path.write_bytes(LINES[:end])
            seen += feed.news()
        assert seen == [FIRST, SECOND]
