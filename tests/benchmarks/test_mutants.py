"""Mistakes planted from outside: each seam is really changed, and without an operator nothing is."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy as taken_out_of_its_module
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.engine.judge import Card, Judged, first_causes, judge_once
from benchmarks.engine.stored import Outcome
from benchmarks.mutants import harm, launch, readings, report, run
from benchmarks.mutants.operator import FAMILIES, REPORT, TUNE, Operator, all_operators, half_of
from benchmarks.mutants.plain_losses import BACKWARD, Recorded, Series
from benchmarks.mutants.published import DEEPCRIME, TRAINCHECK, entries
from benchmarks.mutants.report import Figures, Group
from benchmarks.mutants.seams import Seams
from benchmarks.mutants.stored_runs import LOSSES, Mutant, drawn, has_no_effect, mutants
from benchmarks.mutants.subjects import CHOSEN, OWN, all_subjects
from tests.for_each import for_each
from trackside.contracts.cause import Cause
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Severity
from trackside.storage.open_store import open_store
from trackside.trial.trial import trial_of

OPERATORS = all_operators()
Numbers = list[float]
ROWS, CLASSES = 96, 4


def classify(*, loss: Any = functional.cross_entropy, epochs: int = 4) -> Numbers:
    """Train as a user's script does, with every part that an operator may change. Return losses and weights."""
    inputs = torch.randn(ROWS, 8)
    labels = (inputs @ torch.randn(8, CLASSES)).argmax(1)
    labels[::10] = -100
    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, CLASSES))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.5, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    training = DataLoader(TensorDataset(inputs[:64], labels[:64]), 16, shuffle=True)
    evaluation = DataLoader(TensorDataset(inputs, labels), 32)
    return _losses(
        network, optimizer, schedule=schedule, training=training, evaluation=evaluation, loss=loss, epochs=epochs
    )


def classify_longer() -> Numbers:
    """Train for 44 steps."""
    return classify(epochs=11)


def regress() -> Numbers:
    """Train a regression with Adam."""
    inputs = torch.randn(64, 8)
    data = TensorDataset(inputs, inputs[:, :1] * 2 + 1)
    network = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    loader = DataLoader(data, 16, shuffle=True)
    return _losses(network, optimizer, training=loader, evaluation=DataLoader(data, 16), loss=nn.MSELoss())


def decide() -> Numbers:
    """Train a binary classifier."""
    inputs = torch.randn(64, 8)
    data = TensorDataset(inputs, (inputs[:, :1] > 0).float())
    network = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = DataLoader(data, 16)
    return _losses(network, optimizer, training=loader, evaluation=loader, loss=nn.BCEWithLogitsLoss())


def read_words() -> Numbers:
    """Train on word numbers, with a loss by hand, rows drawn by `randint`, no schedule and no evaluation."""
    words, weights = torch.randint(20, (64, 5)), nn.EmbeddingBag(20, 4)
    optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
    found: Numbers = []
    for _ in range(8):
        rows = torch.randint(64, (16,))
        optimizer.zero_grad()
        loss = (weights(words[rows]) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def _losses(
    network: nn.Module,
    optimizer: Any,
    *,
    schedule: Any = None,
    training: Any,
    evaluation: Any,
    loss: Any,
    epochs: int = 4,
) -> Numbers:
    found: Numbers = []
    for _ in range(epochs):
        network.train()
        for inputs, labels in training:
            optimizer.zero_grad()
            value = loss(network(inputs), labels)
            value.backward()
            optimizer.step()
            if schedule:
                schedule.step()
            found.append(value.item())
        network.eval()
        with torch.no_grad():
            found += [loss(network(inputs), labels).item() for inputs, labels in evaluation]
    return [*found, *(float(each) for parameter in network.parameters() for each in parameter.detach().flatten())]


@contextmanager
def seams() -> Iterator[Seams]:
    """Yield seams whose changes are undone."""
    found = Seams()
    try:
        yield found
    finally:
        found.undo()


def trained(program: Callable[[], Numbers], operator: str | None) -> tuple[str, launch.Planted | None]:
    """Return the numbers of a training as one text, for NaN is not equal to itself, and the mistake, undone."""
    torch.manual_seed(0)
    planted = None if operator is None else launch.plant(operator)
    try:
        return repr(program()), planted
    finally:
        if planted:
            planted.seams.undo()


PROGRAMS = (classify, classify_longer, regress, decide, read_words)
# Where it is not the first.
REACHED = {
    "loss-broadcast": regress,
    "sigmoid-doubled": decide,
    "epsilon-too-large": regress,
    "inputs-nan": classify_longer,
    "rate-collapses": classify_longer,
    "weights-lost": classify_longer,
}
UNREACHED = [
    ("inputs-unscaled", read_words), ("inputs-nan", read_words), ("axes-mixed", read_words),
    ("rows-removed", read_words), ("batch-repeated", read_words), ("rows-not-shuffled", read_words),
    ("batching-disabled", read_words), ("labels-shuffled", read_words), ("labels-off-by-one", regress),
    ("class-dropped", regress), ("classes-overlap", decide), ("labels-partly-wrong", decide),
    ("loss-summed", read_words), ("softmax-doubled", regress), ("loss-of-class-numbers", regress),
    ("loss-broadcast", classify), ("padding-counted", regress), ("sigmoid-doubled", classify),
    ("schedule-never-stepped", regress), ("schedule-stepped-too-often", decide),
    ("normalisation-removed", regress), ("activations-removed", regress), ("activations-dead", decide),
    ("biases-removed", read_words), ("dropout-always-on", regress), ("dropout-too-strong", decide),
    ("evaluation-on-training-data", read_words), ("evaluation-unscaled", read_words),
    ("layers-detached", read_words), ("epsilon-too-large", classify), ("layers-frozen", read_words),
    ("layers-left-out", read_words),
]  # fmt: skip


@pytest.fixture(scope="module")
def twins() -> dict[str, str]:
    """Return the numbers of each program with nothing planted and nobody looking."""
    return {program.__name__: trained(program, None)[0] for program in PROGRAMS}


@for_each({name: (operator,) for name, operator in OPERATORS.items()})
def test_each_operator_says_what_it_does_and_where(operator: Operator) -> None:
    assert operator.what.endswith(".")
    assert operator.seam
    assert operator.unreached


class TestOperators:
    @pytest.mark.parametrize("name", OPERATORS)
    def test_changes_its_seam_and_takes_it_back(self, name: str, twins: dict[str, str]) -> None:
        program = REACHED.get(name, classify)
        numbers, planted = trained(program, name)
        assert planted is not None
        assert planted.seams.touched > 0
        assert numbers != twins[program.__name__]
        assert trained(program, None)[0] == twins[program.__name__]

    @pytest.mark.parametrize(("name", "program"), UNREACHED, ids=[f"{name}-{one.__name__}" for name, one in UNREACHED])
    def test_counts_no_effect_where_it_has_none(
        self, name: str, program: Callable[[], Numbers], twins: dict[str, str]
    ) -> None:
        numbers, planted = trained(program, name)
        assert planted is not None
        assert (planted.seams.touched, numbers) == (0, twins[program.__name__])

    @pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
    def test_the_record_of_the_losses_changes_no_number(
        self, program: Callable[[], Numbers], twins: dict[str, str]
    ) -> None:
        numbers, planted = trained(program, launch.TWIN)
        assert numbers == twins[program.__name__]
        assert planted is not None
        assert planted.seams.touched == 0
        assert planted.losses.series[BACKWARD].count > 0

    def test_are_of_every_family(self) -> None:
        assert {each.family for each in OPERATORS.values()} == set(FAMILIES)
        assert {half_of(family) for family in FAMILIES} == {TUNE, REPORT}

    def test_a_function_taken_out_of_its_module_is_reached(self, twins: dict[str, str]) -> None:
        numbers, _ = trained(lambda: classify(loss=taken_out_of_its_module), "softmax-doubled")
        assert numbers != twins["classify"]
        assert functional.cross_entropy is taken_out_of_its_module

    def test_a_function_that_another_tool_has_wrapped_is_reached(
        self, twins: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = functional.cross_entropy

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        monkeypatch.setattr(functional, "cross_entropy", wrapped)
        program = lambda: classify(loss=nn.CrossEntropyLoss())  # noqa: E731
        assert trained(program, launch.TWIN)[0] == twins["classify"]
        assert trained(program, "softmax-doubled")[0] != twins["classify"]
        assert functional.cross_entropy is wrapped


class TestPlainLosses:
    def test_never_switch_gradients_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Capture would take that for a validation, and miss the real one."""
        entered = []
        original = torch.no_grad.__enter__
        monkeypatch.setattr(torch.no_grad, "__enter__", lambda self: (entered.append(1), original(self))[1])
        counts = []
        for operator in (None, launch.TWIN):
            entered.clear()
            trained(classify, operator)
            counts.append(len(entered))
        assert counts[0] == counts[1] > 0

    @pytest.mark.parametrize("name", ["labels-off-by-one", "labels-shuffled", "class-dropped"])
    @pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), functional.cross_entropy], ids=["module", "function"])
    def test_are_of_what_a_hook_sees(self, loss: Any, name: str) -> None:
        """Wrong labels come with the data: whoever looks at the loss must see them, and not the right ones."""
        torch.manual_seed(0)
        scores, labels, seen = torch.randn(40, 4), torch.arange(40) % 4, []
        if isinstance(loss, nn.Module):
            loss = nn.CrossEntropyLoss()
            loss.register_forward_pre_hook(lambda _, pair: seen.append(pair))
        with seams() as found:
            all_operators()[name].plant(found)
            value = loss(scores, labels)
            assert found.touched == 1
        if seen:
            assert torch.equal(value, functional.cross_entropy(*seen[0]))
        assert not torch.equal(value, functional.cross_entropy(scores, labels))

    @pytest.mark.parametrize("name", ["loss-summed", "labels-shuffled", "labels-off-by-one", "softmax-doubled"])
    def test_are_those_of_the_unchanged_program(self, name: str) -> None:
        """The first loss is of weights that no mistake has touched yet: it must be the twin's."""
        first = [
            planted.losses.series["cross_entropy"].first[0]
            for operator in (launch.TWIN, name)
            if (planted := trained(classify, operator)[1]) is not None
        ]
        assert first[0] == first[1]

    def test_survive_their_file(self, tmp_path: Path) -> None:
        _, planted = trained(classify, "loss-negated")
        assert planted is not None
        planted.write(tmp_path / "losses.json")
        found = Recorded.read(tmp_path / "losses.json")
        assert found == Recorded(planted.seams.touched, planted.losses.series)
        assert Recorded.read(tmp_path / "none.json") is None


SCRIPT = """
import sys
import torch
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(32, 4)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = cross_entropy(model(inputs), inputs[:, :3].argmax(1))
    loss.backward()
    optimizer.step()
print(repr(loss.item()))
"""


class TestLauncher:
    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        path = tmp_path / "train.py"
        path.write_text(SCRIPT)
        return path

    def test_runs_a_script_that_nobody_changed(
        self, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.argv", ["launch"])
        monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
        printed = {}
        for name in (launch.TWIN, "loss-negated", "rate-1000-times-too-low"):
            assert launch.main(["--losses", str(tmp_path / f"{name}.json"), name, str(script), "10"]) == 0
            printed[name] = float(capsys.readouterr().out)
        assert printed["loss-negated"] > printed["rate-1000-times-too-low"] > printed[launch.TWIN]
        twin = Recorded.read(tmp_path / f"{launch.TWIN}.json")
        assert twin is not None
        assert twin.series["cross_entropy"].last[-1] == printed[launch.TWIN]

    def test_lists_every_operator_in_80_columns(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert launch.main(["--list"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) < 80
        assert {line.strip() for line in lines} > set(OPERATORS) | set(FAMILIES)

    def test_an_unknown_operator_is_an_error(self, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            launch.main(["loss-negate", str(script)])
        assert "Unknown operator 'loss-negate'" in capsys.readouterr().err


class TestHarm:
    @pytest.mark.parametrize(
        ("twins", "mutants", "p"),
        [
            pytest.param([3, 3.1, 3.2], [1, 1.1, 1.2], 1 / 20, id="all worse"),
            pytest.param([1, 1.1, 1.2], [3, 3.1, 3.2], 1.0, id="all better"),
            pytest.param([2, 2, 2], [2, 2, 2], 1.0, id="the same"),
            pytest.param([3, 1], [2, 0], 2 / 6, id="two of each, one pair crossed"),
        ],
    )
    def test_p_is_the_share_of_regroupings_as_extreme(self, twins: Numbers, mutants: Numbers, p: float) -> None:
        assert harm.p_value(twins, mutants) == pytest.approx(p)

    @pytest.mark.parametrize("seed", range(4))
    def test_p_is_that_of_scipy(self, seed: int) -> None:
        numbers = torch.randn(7, generator=torch.Generator().manual_seed(seed)).tolist()
        theirs = stats.permutation_test(
            (numbers[:3], numbers[3:]),
            lambda good, bad, axis: good.mean(axis=axis) - bad.mean(axis=axis),
            vectorized=True,
            n_resamples=math.inf,
            alternative="greater",
        )
        assert harm.p_value(numbers[:3], numbers[3:]) == pytest.approx(theirs.pvalue)

    @pytest.mark.parametrize(
        ("twins", "mutants", "expected"),
        [
            pytest.param([0.9, 0.91, 0.92], [0.1, 0.2, 0.15], True, id="nearly all is lost"),
            pytest.param([0.9, 0.91, 0.92], [0.89, 0.895, 0.88], False, id="surely worse, but hardly"),
            pytest.param([0.9, 0.5, 0.92], [0.8, 0.6, 0.4], False, id="worse by chance"),
            pytest.param([0.9, 0.91, 0.92], [0.95, 0.96, 0.97], False, id="better"),
            pytest.param([0.9, 0.91], [0.1, 0.2], None, id="too few seeds"),
            pytest.param([0.05, 0.04, 0.03], [0.0, 0.0, 0.0], False, id="the twin learns nothing"),
        ],
    )
    def test_a_mutant_hurts_by_test_and_by_size(self, twins: Numbers, mutants: Numbers, expected: bool | None) -> None:
        assert harm.hurts(twins, mutants, nothing=[0.1] * len(twins)) is expected

    @pytest.mark.parametrize(
        ("twins", "mutants", "expected"),
        [
            pytest.param([0.9], [0.1], 1.0, id="all"),
            pytest.param([0.9, 0.5], [0.5, 0.5], 0.25, id="on average"),
            pytest.param([0.9], [0.98], -0.1, id="better"),
            pytest.param([0.05], [0.0], None, id="the twin learns nothing"),
        ],
    )
    def test_what_is_lost(self, twins: Numbers, mutants: Numbers, expected: float | None) -> None:
        assert harm.lost_share(twins, mutants, nothing=[0.1] * len(twins)) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("counts", "name"),
        [
            pytest.param({"mse_loss": 40, "backward": 40}, "mse_loss", id="training"),
            pytest.param(
                {"mse_loss": 40, "evaluation mse_loss": 9, "backward": 40}, "evaluation mse_loss", id="evaluation"
            ),
            pytest.param(
                {"mse_loss": 40, "evaluation l1_loss": 9, "backward": 40}, "mse_loss", id="evaluation by another loss"
            ),
            pytest.param({"backward": 40}, "backward", id="a loss by hand"),
            pytest.param({"kl_div": 6, "backward": 40}, "backward", id="a term now and then"),
            pytest.param({}, "", id="none"),
        ],
    )
    def test_the_twin_decides_on_the_measure(self, counts: dict[str, int], name: str) -> None:
        assert harm.measured_series(Recorded(0, {key: Series(count) for key, count in counts.items()})) == name

    def test_a_loss_that_is_no_number_is_as_bad_as_nothing_learned(self) -> None:
        series = Series()
        for value in (2.0, 1.0, math.nan):
            series.add(value)
        assert harm.quality(Recorded(1, {"mse_loss": series}), "mse_loss", nothing=-2.0) == -2.0


SUBJECTS = {each.name: each for each in all_subjects()}


def mutant(subject: str, operator: str, seed: int = 0) -> Mutant:
    """Return a mutant by names."""
    return Mutant(SUBJECTS[subject], OPERATORS[operator], seed)


class TestHalves:
    @pytest.mark.parametrize(
        ("subject", "operator", "half"),
        [
            pytest.param("wine-mlp", "loss-negated", TUNE, id="both of the tune half"),
            pytest.param("wine-mlp", "labels-shuffled", REPORT, id="the operators are of the report half"),
            pytest.param("cancer-mlp", "loss-negated", REPORT, id="the program is of the report half"),
            pytest.param("cancer-mlp", "labels-shuffled", REPORT, id="both of the report half"),
        ],
    )
    def test_library_and_family_decide(self, subject: str, operator: str, half: str) -> None:
        assert mutant(subject, operator).half == half

    def test_chosen_programs_exist_and_are_of_both_halves(self) -> None:
        chosen = [SUBJECTS[name] for name in CHOSEN]
        assert {each.half for each in chosen} == {TUNE, REPORT}
        assert {each.half for each in chosen if each.library == OWN} == {TUNE, REPORT}

    def test_twins_come_before_their_mutants_and_halves_do_not_mix(self) -> None:
        found = list(mutants([SUBJECTS["wine-mlp"], SUBJECTS["cancer-mlp"]], half=TUNE, seeds=2))
        assert found[0].operator is None
        assert {each.half for each in found if each.operator} == {TUNE}
        assert {each.subject.name for each in found} == {"wine-mlp"}
        assert {each.seed for each in found} == {0, 1}


def card(*causes: Cause, rule: str = "exploding-tensor") -> Card:
    """Return a card."""
    return Card((rule,), Severity.WARNING, 5, causes, "Words.")


QUIET = Judged(50)
LOUD = Judged(50, cards=(card(Cause.LOSS_SIGN, Cause.WRONG_LABELS),))


class TestReport:
    def test_counts_what_is_found_and_named(self) -> None:
        named = Group(mutant("wine-mlp", "loss-negated"), "hurts", ((LOUD, QUIET), (LOUD, LOUD), (QUIET, QUIET)))
        nameless = Group(mutant("wine-mlp", "inputs-noisy"), "hurts", ((LOUD, QUIET),))
        harmless = Group(mutant("wine-mlp", "loss-shrunk"), "harmless", ((LOUD, QUIET),))
        assert Figures.of([named, nameless, harmless]) == Figures(runs=4, found=2, nameable=3, first=1, in_two=1)

    def test_never_shows_a_single_run_of_the_report_half(self) -> None:
        found = [
            Group(mutant("cancer-mlp", "loss-negated"), "hurts", ((QUIET, QUIET),)),
            Group(mutant("wine-mlp", "labels-shuffled"), "hurts", ((QUIET, QUIET),)),
            Group(mutant("wine-mlp", "inputs-unscaled"), "hurts", ((QUIET, QUIET),)),
        ]
        text = "\n".join(report.tables(found))
        assert "wine-mlp | inputs-unscaled" in text
        assert "cancer-mlp" not in text
        assert "labels-shuffled" not in text

    def test_shows_the_precision_and_the_recall_of_each_rule(self) -> None:
        found = [
            Group(mutant("wine-mlp", "loss-negated"), "hurts", ((LOUD, QUIET), (QUIET, LOUD))),
            Group(mutant("wine-mlp", "labels-shuffled"), "hurts", ((LOUD, QUIET), (LOUD, LOUD))),
            Group(mutant("wine-mlp", "loss-shrunk"), "harmless", ()),
        ]
        (row,) = [line for line in report.tables(found) if line.startswith(f"| {min(LOUD.rules)} |")]
        shares = [cell.split(" = ")[0] for cell in row.strip("| ").split(" | ")[1:]]
        assert shares == ["2/4", "1/2", "1/2", "2/3"]  # of runs, of those named first, of twins, of alarms

    def test_shows_how_often_what_is_stated_is_right(self) -> None:
        sure = Judged(50, cards=(replace(LOUD.cards[0], probability=0.97),))
        found = [
            Group(mutant("wine-mlp", "loss-negated"), "hurts", ((sure, QUIET), (LOUD, sure))),
            Group(mutant("wine-mlp", "inputs-unscaled"), "hurts", ((sure, QUIET), (sure, sure))),
        ]
        rows = [line.split(" | ") for line in report.tables(found) if line.startswith(("| 95%", "| 0%"))]
        assert [row[:5] for row in rows] == [["| 95% to 100%", "tune", "2", "1", "0.97"]]
        assert rows[0][5].startswith("2/3")

    def test_judges_nothing_of_the_report_half_without_a_reading(self) -> None:
        found = [
            report.Planted((mutant("cancer-mlp", "loss-negated"),), "hurts"),
            report.Planted((mutant("wine-mlp", "loss-negated"),), "hurts"),
            report.Planted((mutant("wine-mlp", "inputs-unscaled"),), "harmless"),
        ]
        assert [each.name for each in report.to_judge(found, is_read=False)] == [
            "wine-mlp/twin/0", "wine-mlp/loss-negated/0",
        ]  # fmt: skip
        read = report.to_judge(found, is_read=True)
        assert [each.subject.name for each in read] == ["cancer-mlp", "cancer-mlp", "wine-mlp", "wine-mlp"]
        unread = list(report.groups(found, dict.fromkeys(report.to_judge(found, is_read=False), QUIET)))
        assert [len(each.runs) for each in unread] == [0, 1, 0]
        assert report.reading_of(unread, choice="").runs == 0


class TestReadings:
    def test_each_reading_is_kept_once(self, tmp_path: Path) -> None:
        found = [
            Group(mutant("cancer-mlp", "loss-negated"), "hurts", ((LOUD, QUIET), (LOUD, QUIET), (QUIET, QUIET))),
            Group(mutant("cancer-mlp", "loss-shrunk"), "hurts", ((QUIET, QUIET),)),
            Group(mutant("wine-mlp", "inputs-unscaled"), "hurts", ((LOUD, QUIET),)),
        ]
        first = report.reading_of(found, choice="--half report --seeds 3 --sample 2 --draw 1")
        assert (first.mutants, first.runs, first.found, first.mutants_found) == (2, 4, 2, 1)
        path = tmp_path / "readings.jsonl"
        assert readings.read_all(path) == ()
        assert readings.add(first, path)
        assert not readings.add(report.reading_of(found, choice=first.choice), path)
        assert readings.add(report.reading_of(found[:1], choice=first.choice), path)
        assert [each.mutants for each in readings.read_all(path)] == [2, 1]
        lines = list(readings.table(readings.read_all(path)))
        assert len({line.count("|") for line in lines}) == 1
        assert "2/4 = 50.0%" in lines[2]

    def test_all_that_were_made_are_on_the_page(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text(encoding="utf-8")
        assert all(line in page for line in readings.table(readings.read_all()))


class TestSamples:
    CHOSEN_HALF = tuple(mutants([each for each in all_subjects() if each.name in CHOSEN], half=REPORT, seeds=2))

    def pairs(self, chosen: Any) -> set[tuple[str, str]]:
        return {(each.subject.name, each.operator.name) for each in chosen if each.operator}

    def test_hold_all_seeds_and_twins_of_what_is_drawn(self) -> None:
        found = drawn(self.CHOSEN_HALF, count=20, draw="1")
        assert len(self.pairs(found)) == 20
        assert all(sum(self.pairs([each]) == {pair} for each in found) == 2 for pair in self.pairs(found))
        assert {each.twin for each in found} == {each for each in found if each.operator is None}
        kept = set(found)
        assert found == [each for each in self.CHOSEN_HALF if each in kept]

    def test_grow_without_losing_any(self) -> None:
        small, large = (drawn(self.CHOSEN_HALF, count=count, draw="1") for count in (20, 50))
        assert self.pairs(small) < self.pairs(large)
        assert self.pairs(drawn(self.CHOSEN_HALF, count=20, draw="2")) != self.pairs(small)
        assert drawn(self.CHOSEN_HALF, count=10**6, draw="1") == list(self.CHOSEN_HALF)

    @pytest.mark.parametrize(
        ("count", "fewest"),
        [pytest.param(14, 1, id="once"), pytest.param(28, 2, id="twice"), pytest.param(36, 2, id="36")],
    )
    def test_families_of_operators_take_turns(self, count: int, fewest: int) -> None:
        found = drawn(self.CHOSEN_HALF, count=count, draw="7")
        drawn_of = Counter(OPERATORS[name].family for _, name in self.pairs(found))
        assert set(drawn_of) == set(FAMILIES)
        assert min(drawn_of.values()) >= fewest
        assert max(drawn_of.values()) <= fewest + 1

    @pytest.mark.parametrize(
        ("status", "touched", "is_idle"),
        [
            pytest.param(0, 3, False, id="counts"),
            pytest.param(0, 0, True, id="unreached"),
            pytest.param(1, 3, True, id="raised"),
            pytest.param(None, 3, False, id="not-trained"),
        ],
    )
    def test_a_mutant_without_effect_is_trained_once(
        self, status: int | None, touched: int, is_idle: bool, tmp_path: Path
    ) -> None:
        planted = mutant("wine-mlp", "loss-negated")
        folder = planted.folder(tmp_path)
        folder.mkdir(parents=True)
        (folder / LOSSES).write_text(json.dumps({"touched": touched, "series": {}}))
        if status is not None:
            Outcome(status, 0.5, 1.0).write(folder)
        assert has_no_effect(planted, tmp_path) is is_idle
        other = Mutant(planted.subject, planted.operator, 1)
        assert (other in run.unstored([planted, other], tmp_path)) is not is_idle


class TestPublishedLists:
    def test_are_whole(self) -> None:
        codes = [each.name.split()[0] for each in entries() if each.source == DEEPCRIME]
        assert len(set(codes)) == len(codes) == 24
        found = {
            word for each in entries() if each.source == TRAINCHECK for word in re.findall(r"[\w-]+-\d+", each.name)
        }
        page = Path(__file__).parents[2] / "docs" / "silent-errors.md"
        listed = {word for word in re.findall(r"[\w-]+-\d+", page.read_text(encoding="utf-8")) if "torch-2" not in word}
        assert {each for each in listed if not each.startswith("issue")} - found <= {"x-jxmnop-ddp-out-of-sync"}

    def test_name_operators_that_exist_or_give_a_reason(self) -> None:
        assert {name for each in entries() for name in each.operators} <= set(OPERATORS)
        assert all(each.operators or len(each.why_not) > 10 for each in entries())


CHOICE = ["--half", "tune", "--only", "wine-batch-norm", "loss-negated", "evaluated-in-training-mode"]


def test_a_mutant_is_trained_judged_and_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert run.main([*CHOICE, *root, "--minutes", "0"]) == 1
    assert "0 of 3 trainings stored" in capsys.readouterr().out
    assert run.main([*CHOICE, *root]) == 0
    planted = mutant("wine-batch-norm", "loss-negated")
    folder = planted.folder(tmp_path)
    before, outcome = (folder / "outcome.json").stat().st_mtime_ns, Outcome.read(folder)
    twin = Outcome.read(planted.twin.folder(tmp_path))
    assert outcome is not None
    assert twin is not None
    assert (outcome.status, twin.status) == (0, 0)
    assert (outcome.score or 0.0) < 0.5
    assert (twin.score or 0.0) > 0.88
    assert run.main([*CHOICE, *root]) == 0
    assert (folder / "outcome.json").stat().st_mtime_ns == before
    quiet = judge_once(planted.twin.folder(tmp_path))
    assert Cause.LOSS_SIGN in first_causes(judge_once(folder).beyond(quiet), 1)
    # Capture must see a mutant as it sees the mistake in a script: this one is found by how it is made.
    other = judge_once(mutant("wine-batch-norm", "evaluated-in-training-mode").folder(tmp_path))
    assert first_causes(other.beyond(quiet), 1) == (Cause.TRAIN_EVAL_MODE,)
    capsys.readouterr()
    assert report.main([*CHOICE, *root]) == 0
    assert "| untested | 2 | 0 |" in capsys.readouterr().out
    assert report.main([*CHOICE, *root, "--lost", "0.1"]) == 0
    assert "| hurts | 1 | 0 |" in capsys.readouterr().out  # a right mode makes this program no better
    with pytest.raises(SystemExit):
        report.main([*CHOICE, *root, "--lost", "0.1", "--read"])
    assert "a reading needs one" in capsys.readouterr().err


def root_mean_square(folder: Path) -> float:
    """Return the size of the first batch that a run has saved of its model's inputs."""
    trial = trial_of(RunLocation(str((folder / "run").absolute())), open_store, will_grow=False)
    trial.refresh()
    (name,) = trial.tensor_names(collection="model_inputs")
    batch = trial.value(name, step=0, worker=trial.workers[0])
    return float(np.sqrt(np.square(batch.astype(np.float64)).mean()))


def test_what_is_stored_is_what_the_model_got(tmp_path: Path) -> None:
    """An operator below capture changes a batch that capture has saved already."""
    assert run.main(["--half", "tune", "--only", "wine-mlp", "inputs-unscaled", "--root", str(tmp_path)]) == 0
    planted = mutant("wine-mlp", "inputs-unscaled")
    plain = root_mean_square(planted.twin.folder(tmp_path))
    assert root_mean_square(planted.folder(tmp_path)) == pytest.approx(255 * plain, rel=1e-5)


class TestCalls:
    def test_lie_above_who_replaces_them_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Own(nn.Linear):
            """A class with a call of its own."""

            def __call__(self, *args: Any) -> Any:
                return super().__call__(*args)

        seen = []
        with seams() as planted:
            planted.at_calls(lambda _, values: values + 1)

            class Later(nn.Module):
                """A class that is younger than the operator, with a layer that it calls."""

                def __init__(self) -> None:
                    super().__init__()
                    self.layer = Own(2, 2)

                def forward(self, values: torch.Tensor) -> torch.Tensor:
                    return self.layer(values)  # type: ignore[no-any-return] # torch's own omission

            original = nn.Module.__call__

            def capture(module: nn.Module, *args: Any) -> Any:
                seen.append((type(module).__name__, args[0].tolist()))
                return original(module, *args)

            monkeypatch.setattr(nn.Module, "__call__", capture)
            Later()(torch.zeros(2))
            Own(2, 2)(torch.zeros(2))
            assert planted.touched == 2
        assert seen == [("Later", [1, 1]), ("Own", [1, 1]), ("Own", [1, 1])]
        assert "__call__" not in vars(nn.Linear)
        assert "__call__" not in vars(Later)
        assert "__call__" in vars(Own)


def test_a_word_that_is_no_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--only", "loss-negate"])
    assert "loss-negate" in capsys.readouterr().err
