"""The engine of the corpora: what is stored is read again, trainings are forked, pages keep their own words."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.engine.documents import from_document
from benchmarks.engine.figures import Share, share
from benchmarks.engine.forks import TROUBLE, train_each
from benchmarks.engine.judge import Alarm, Card, Judged, first_causes
from benchmarks.engine.pages import follows, put, replaced
from benchmarks.engine.stored import Outcome, judged_once, missing_of, stored_of
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity

REPOSITORY = Path(__file__).parents[2]
ALARM = Alarm("overfit", Severity.WARNING, 9, causes=(Cause.OVERFITTING,), what_to_do=("Stop.",), is_recovered=True)
CARD = Card(("overfit",), Severity.CRITICAL, 9, (Cause.OVERFITTING,), "Words.", 0.9)
JUDGED = Judged(50, (2.0, 1.0), (ALARM,), (CARD,), crashed=("hang",))


@dataclass(frozen=True)
class Named:
    """A training that is only a name."""

    name: str

    def folder(self, root: Path) -> Path:
        return root / self.name


class TestStored:
    def test_a_judgement_survives_its_file(self) -> None:
        assert from_document(Judged, json.loads(json.dumps(asdict(JUDGED)))) == JUDGED

    @pytest.mark.parametrize("document", [{}, {"steps": 1, "other": 2}, {"steps": 1, "alarms": [{"rule": "a"}]}, []])
    def test_another_form_is_an_error(self, document: object) -> None:
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
            from_document(Judged, document)

    def test_an_outcome_is_read_whoever_wrote_it(self, tmp_path: Path) -> None:
        assert Outcome.read(tmp_path) is None
        Outcome(1, 0.5, 2.0, "ValueError: no").write(tmp_path)
        assert Outcome.read(tmp_path) == Outcome(1, 0.5, 2.0, "ValueError: no")
        (tmp_path / "outcome.json").write_text('{"program": "of an older form", "score": 0.5, "seconds": 1.0}')
        assert Outcome.read(tmp_path) == Outcome(score=0.5, seconds=1.0)

    def test_only_what_came_to_its_end_counts(self, tmp_path: Path) -> None:
        chosen = [Named("ended"), Named("failed"), Named("never")]
        for each, status in zip(chosen, (0, 1), strict=False):
            each.folder(tmp_path).mkdir()
            Outcome(status).write(each.folder(tmp_path))
        assert [each.name for each, _ in stored_of(chosen, tmp_path)] == ["ended"]
        assert missing_of(chosen, tmp_path) == [Named("never")]

    def test_a_judgement_is_kept_until_the_training_is_another(self, tmp_path: Path) -> None:
        asked = []

        def judge() -> Judged:
            asked.append(1)
            return JUDGED

        Outcome().write(tmp_path)
        kept = tmp_path / "judged.json"
        assert [judged_once(kept, Judged, judge) for _ in range(2)] == [JUDGED, JUDGED]
        assert len(asked) == 1
        os.utime(tmp_path / "outcome.json", ns=(1, 1))
        assert judged_once(kept, Judged, judge) == JUDGED
        kept.write_text(kept.read_text().replace('"steps"', '"older"'))
        assert judged_once(kept, Judged, judge) == JUDGED
        assert len(asked) == 3


def test_trainings_are_forked_and_those_without_an_end_are_named(tmp_path: Path) -> None:
    def train(folder: Path) -> None:
        if folder.name == "failing":
            raise ValueError("a wrong shape")
        Outcome(seconds=float(os.getpid())).write(folder)

    ended: list[Named] = []
    todo = [(Named(name), train) for name in ("first", "failing", "last")]
    assert train_each(todo, root=tmp_path, processes=2, told=ended.append) == ["failing"]
    assert {each.name for each in ended} == {"first", "last"}
    assert "a wrong shape" in (tmp_path / "failing" / TROUBLE).read_text()
    pids = {outcome.seconds for each in ended if (outcome := Outcome.read(each.folder(tmp_path)))}
    assert len(pids | {float(os.getpid())}) == 3
    assert train_each(todo, root=tmp_path / "late", until=0.0) == []
    assert not (tmp_path / "late").exists()


class TestJudgement:
    @pytest.mark.parametrize(
        ("twin", "count"),
        [pytest.param(Judged(50), 1, id="silent twin"), pytest.param(JUDGED, 0, id="the twin has it too")],
    )
    def test_only_what_the_twin_has_not_counts(self, twin: Judged, count: int) -> None:
        assert len(JUDGED.beyond(twin)) == count

    def test_causes_are_read_card_by_card(self) -> None:
        causes = ((Cause.LOSS_SIGN,), (Cause.LOSS_SIGN, Cause.WRONG_LABELS), (Cause.WRONG_LOSS,))
        cards = [Card(("a",), Severity.WARNING, 5, each, "") for each in causes]
        assert first_causes(cards, 2) == (Cause.LOSS_SIGN, Cause.WRONG_LABELS)

    def test_alarms_by_level_and_rule(self) -> None:
        assert JUDGED.at_least(Severity.WARNING) == JUDGED.at_least(Severity.INFO, "overfit") == (ALARM,)
        assert JUDGED.at_least(Severity.CRITICAL) == JUDGED.at_least(Severity.INFO, "hang") == ()


@pytest.mark.parametrize(
    ("share", "low", "high"),
    [  # from SciPy: binomtest(count, of).proportion_ci(method="wilson")
        pytest.param(Share(0, 180), 0.0, 0.02090, id="none of 180"),
        pytest.param(Share(9, 180), 0.02653, 0.09224, id="one in twenty"),
        pytest.param(Share(180, 180), 0.97910, 1.0, id="all"),
        pytest.param(Share(0, 0), 0.0, 1.0, id="of none"),
    ],
)
def test_wilson_interval(share: Share, low: float, high: float) -> None:
    assert share.interval == pytest.approx((low, high), abs=2e-4)


def test_shares_are_counted() -> None:
    assert share([1, 2, 3], lambda number: number % 2) == Share(2, 3)


class TestPages:
    MARK = follows("benchmarks.some.report")

    @pytest.mark.parametrize(
        ("before", "end", "after"),
        [
            pytest.param("# Words\n\n{}\nold\n", "", "# Words\n\n{}\n\nnew\n", id="below the mark"),
            pytest.param("a\n{}\nold\n<!-- b -->\nc", "<!-- b -->", "a\n{}\n\nnew\n\n<!-- b -->\nc", id="between two"),
        ],
    )
    def test_words_around_stay(self, before: str, end: str, after: str, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text(before.format(self.MARK))
        for _ in range(2):
            put(["new"], page, begin=self.MARK, end=end)
            assert page.read_text() == after.format(self.MARK)

    @pytest.mark.parametrize(
        "page", ["", "<!-- a -->", "<!-- b --> <!-- a -->"], ids=["empty", "no end", "wrong order"]
    )
    def test_a_page_without_a_place_is_an_error(self, page: str) -> None:
        with pytest.raises(ValueError, match="The page has no <!-- a --> and <!-- b -->"):
            replaced(page, "new", begin="<!-- a -->", end="<!-- b -->")


def test_commands_that_pages_name_exist() -> None:
    """What a page shows must be there to be measured again."""
    pages = [*(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "benchmarks" / "README.md", *REPOSITORY.glob("*.md")]
    named = {
        (page.name, module)
        for page in pages
        if page.name != "CHANGELOG.md"
        for module in re.findall(r"python -m (benchmarks[\w.]*\w)", page.read_text(encoding="utf-8"))
    }
    missing = {(page, module) for page, module in named if find_spec(module) is None}
    assert len(named) > 60
    assert not missing
