"""Judges stored mutants beside their twins, and writes the tables of docs/mutants.md.

    python -m benchmarks.mutants.report --seeds 3 --write docs/mutants.md
    python -m benchmarks.mutants.report --half tune --seeds 1            # prints them
    python -m benchmarks.mutants.report --half tune --seeds 1 --lost 0.1 # counts what lost a tenth, without a test
    python -m benchmarks.mutants.report --half report --only own --seeds 3 --sample 36 --read

Of the half `report` sums are shown, by family of operators, and only with `--read`: that is a reading, which is counted
and dated in `readings.jsonl` and on the page. Nobody reads its single runs. What stands above the marker in the file is
left as it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.engine.figures import Share
from benchmarks.engine.judge import Card, Judged, first_causes, judge_all
from benchmarks.engine.options import parser
from benchmarks.engine.pages import follows, put, table
from benchmarks.engine.stored import Outcome, code_digest, stored_of
from benchmarks.mutants import harm, readings
from benchmarks.mutants.operator import FAMILIES, REPORT, TUNE, Operator, all_operators, half_of
from benchmarks.mutants.plain_losses import Recorded
from benchmarks.mutants.published import table as published_table
from benchmarks.mutants.run import add_choice, chosen_mutants
from benchmarks.mutants.stored_runs import LOSSES, Mutant
from benchmarks.mutants.subjects import Subject

MARKER = follows("benchmarks.mutants.report")
COUNTED = ("hurts", "silent")


@dataclass(frozen=True)
class Group:
    """The runs of one operator in one program, by seed, beside their twins.

    fate  `hurts` or `silent` (these count), `harmless`, `unreached`, `raised` (ended in an exception), `untested`
          (fewer seeds than the test needs) or `twin failed`
    runs  the judgement of the mutant and of its twin, of each seed; empty where the mutant does not count
    """

    mutant: Mutant
    fate: str
    runs: tuple[tuple[Judged, Judged], ...]

    @property
    def operator(self) -> Operator:
        """The operator."""
        assert self.mutant.operator is not None
        return self.mutant.operator

    @property
    def half(self) -> str:
        """The half of the mutant."""
        return self.mutant.half


@dataclass(frozen=True)
class Planted:
    """The stored trainings of one operator in one program, one a seed, and their fate (see `Group`)."""

    mutants: tuple[Mutant, ...]
    fate: str

    @property
    def is_counted(self) -> bool:
        """True if the mutant counts."""
        return self.fate in COUNTED


def planted(chosen: Sequence[Mutant], *, root: Path, lost: float | None = None) -> list[Planted]:
    """Return each program and operator of which anything is stored. No verdict has a part in a fate.

    Args:
        chosen: Mutants.
        root: The folder of their runs.
        lost: The share of what the twin learned from which on a mutant hurts that has too few seeds for the test; None:
            then it is `untested`.
    """
    of: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for each in chosen:
        if each.operator is not None and Outcome.read(each.folder(root)) is not None:
            of[each.subject.name, each.operator.name].append(each)
    return [Planted(tuple(several), _fate(several, root=root, lost=lost)) for several in of.values()]


def groups(found: Sequence[Planted], judged: Mapping[Mutant, Judged]) -> Iterator[Group]:
    """Yield a group for each program and operator, with judgements where it counts."""
    for each in found:
        counted = each.mutants if each.is_counted and all(one in judged for one in each.mutants) else ()
        yield Group(each.mutants[0], each.fate, tuple((judged[one], judged[one.twin]) for one in counted))


def to_judge(found: Sequence[Planted], *, is_read: bool) -> list[Mutant]:
    """Return the trainings whose verdicts count: mutants that count, and their twins.

    Args:
        found: What is stored.
        is_read: True if the half `report` is read, too.
    """
    counted = [mutant for each in found if each.is_counted for mutant in each.mutants]
    counted = [mutant for mutant in counted if is_read or mutant.half == TUNE]
    return list(dict.fromkeys(each for mutant in counted for each in (mutant.twin, mutant)))


def _fate(whole: Sequence[Mutant], *, root: Path, lost: float | None) -> str:
    outcomes = {each: Outcome.read(each.folder(root)) for each in (*whole, *(one.twin for one in whole))}
    if any(outcome and outcome.status for each in whole if (outcome := outcomes[each])):
        return "raised"
    recorded = {each.seed: Recorded.read(each.folder(root) / LOSSES) for each in whole}
    if not all(each and each.touched for each in recorded.values()):
        return "unreached"
    if any(outcome is None or outcome.status for each in whole for outcome in [outcomes[each.twin]]):
        return "twin failed"
    operator = whole[0].operator
    if operator is not None and operator.is_silent:
        return "silent"
    twins = {each.seed: Recorded.read(each.twin.folder(root) / LOSSES) for each in whole}
    verdict = _hurts(whole, twins, recorded, root=root, lost=lost)
    return "untested" if verdict is None else "hurts" if verdict else "harmless"


def _hurts(
    whole: Sequence[Mutant],
    twins: Mapping[int, Recorded | None],
    recorded: Mapping[int, Recorded | None],
    *,
    root: Path,
    lost: float | None,
) -> bool | None:
    program = whole[0].subject.program
    if not isinstance(program, OwnProgram):
        good, bad, nothing = harm.qualities(
            {seed: each for seed, each in twins.items() if each},
            {seed: each for seed, each in recorded.items() if each},
        )
    else:
        good, bad, nothing = [], [], [program.chance] * len(whole)
        for scores, runs in ((good, [each.twin for each in whole]), (bad, whole)):
            for each in runs:
                outcome = Outcome.read(each.folder(root))
                scores.append(program.chance if outcome is None or outcome.score is None else outcome.score)
    verdict = harm.hurts(good, bad, nothing=nothing)
    if verdict is None and lost is not None:
        share = harm.lost_share(good, bad, nothing=nothing)
        return share is not None and share >= lost
    return verdict


@dataclass(frozen=True)
class Figures:
    """Sums over runs of mutants that count."""

    runs: int
    found: int
    nameable: int
    first: int
    in_two: int

    @classmethod
    def of(cls, several: Sequence[Group]) -> Figures:
        """Return the sums over the groups that count."""
        runs = found = nameable = first = in_two = 0
        for group in several:
            if group.fate not in COUNTED:
                continue
            causes = set(group.operator.causes)
            for mutant, twin in group.runs:
                beyond = mutant.beyond(twin)
                runs += 1
                found += bool(beyond)
                nameable += bool(causes)
                first += bool(causes & set(first_causes(beyond, 1)))
                in_two += bool(causes & set(first_causes(beyond, 2)))
        return cls(runs, found, nameable, first, in_two)

    @property
    def shares(self) -> tuple[Share, Share, Share]:
        """The shares found, named first, and named in the first two."""
        return Share(self.found, self.runs), Share(self.first, self.nameable), Share(self.in_two, self.nameable)


HEAD = "mutants that count | runs | found beyond the twin | named first | named in the first two"


def _row(names: Sequence[str], several: Sequence[Group]) -> tuple[object, ...]:
    counted = [group for group in several if group.fate in COUNTED and group.runs]
    figures = Figures.of(counted)
    return *names, len(counted), figures.runs, *figures.shares


def tables(found: Sequence[Group]) -> Iterator[str]:
    """Yield the tables of figures, line by line."""
    halves = {half: [group for group in found if group.half == half] for half in (TUNE, REPORT)}
    new = halves[REPORT]
    parts = {
        **halves,
        "report: library read, operators not": [g for g in new if g.mutant.subject.half == TUNE],
        "report: operators read, library not": [g for g in new if half_of(g.operator.family) == TUNE],
        "report: neither read": [g for g in new if g.mutant.subject.half == REPORT == half_of(g.operator.family)],
    }
    yield from table(f"half | {HEAD}", (_row((name,), several) for name, several in parts.items()))
    yield ""
    fates = {half: Counter(group.fate for group in several) for half, several in halves.items()}
    every = sorted({fate for counts in fates.values() for fate in counts})
    yield from table(
        "fate of a mutant | tune | report", ((fate, fates[TUNE][fate], fates[REPORT][fate]) for fate in every)
    )
    yield ""
    by_family = {
        (family, half): chosen
        for family in FAMILIES
        for half, several in halves.items()
        if (chosen := [group for group in several if group.operator.family == family])
    }
    heads = f"family of operators | half | {HEAD}"
    yield from table(heads, (_row(names, several) for names, several in by_family.items()))
    yield ""
    yield from _said_with(halves)
    yield ""
    yield from _rules(found)
    yield ""
    yield from _missed(halves[TUNE])


def _said_with(halves: Mapping[str, Sequence[Group]]) -> Iterator[str]:
    """Yield the share of cards that are right, by the probability that they state.

    A card on a mutant is right if one of its rules is silent on the twin; a card on a twin is wrong.
    """
    rows = []
    for low, high in ((0.95, 1.0), (0.8, 0.95), (0.0, 0.8)):
        for half, several in halves.items():
            right, wrong = _cards(several)
            some, others = (
                [c.probability for c in cards if low <= c.probability < high or c.probability == high == 1.0]
                for cards in (right, wrong)
            )
            if stated := [*some, *others]:
                mean = f"{sum(stated) / len(stated):.2f}"
                rows.append(
                    (f"{low:.0%} to {high:.0%}", half, len(some), len(others), mean, Share(len(some), len(stated)))
                )
    yield from table(
        "stated probability | half | cards on mutants, beyond the twin | cards on twins | mean | right", rows
    )


def _cards(several: Sequence[Group]) -> tuple[list[Card], list[Card]]:
    """Return the cards on mutants beyond their twins, and those on the twins, each twin once."""
    counted = [group for group in several if group.fate in COUNTED and group.runs]
    beyond = [card for group in counted for mutant, twin in group.runs for card in mutant.beyond(twin)]
    twins = {(group.mutant.subject, place): twin for group in counted for place, (_, twin) in enumerate(group.runs)}
    return beyond, [card for twin in twins.values() for card in twin.cards]


def _rules(found: Sequence[Group]) -> Iterator[str]:
    """Yield the precision and the recall of each rule over all runs that were judged: sums, of both halves together."""
    counted = [group for group in found if group.fate in COUNTED and group.runs]
    twins = {(g.mutant.subject, place): twin for g in counted for place, (_, twin) in enumerate(g.runs)}
    runs, spoke, named = 0, Counter[str](), Counter[str]()
    for group in counted:
        for mutant, twin in group.runs:
            beyond = mutant.beyond(twin)
            rules = {rule for card in beyond for rule in card.rules} - twin.rules
            runs += 1
            spoke.update(rules)
            named.update(rules if set(group.operator.causes) & set(first_causes(beyond, 1)) else ())
    warned = Counter(rule for twin in twins.values() for rule in twin.rules)
    rows = [
        (
            rule,
            Share(spoke[rule], runs),
            Share(named[rule], spoke[rule]),
            Share(warned[rule], len(twins)),
            Share(spoke[rule], spoke[rule] + warned[rule]),
        )
        for rule in sorted({*spoke, *warned}, key=lambda each: (-spoke[each], each))
    ]
    yield from table(
        "rule | recall: runs of mutants warned of beyond the twin | first cause right | clean twins | precision", rows
    )


def _missed(tuned: Sequence[Group]) -> Iterator[str]:
    yield f"Mutants of the half `{TUNE}` that count and are not named in the first two on each seed:"
    yield ""
    rows = []
    for group in tuned:
        causes = set(group.operator.causes)
        beyond = [mutant.beyond(twin) for mutant, twin in group.runs]
        is_missed = any(not (causes & set(first_causes(cards, 2)) if causes else cards) for cards in beyond)
        if group.fate in COUNTED and is_missed:
            right = ", ".join(cause.value for cause in group.operator.causes) or "none in the list"
            seen = " / ".join(dict.fromkeys("; ".join(map(_shown, cards[:2])) or "nothing" for cards in beyond))
            rows.append((group.mutant.subject.name, group.operator.name, group.fate, right, seen))
    yield from table("program | operator | counts as | right causes | beyond the twin, by seed", rows)


def _shown(card: Card) -> str:
    causes = ", ".join(cause.value for cause in card.causes[:2]) or "cause unknown"
    return f"{', '.join(card.rules)} {card.severity.value} at {card.step} ({causes})"


def operators_table() -> Iterator[str]:
    """Yield the table of operators, line by line."""
    yield from table(
        "family | half | operator | mistake | seam | has no effect on | causes that name it rightly | silent",
        (
            (
                each.family, half_of(each.family), each.name, each.what, each.seam, each.unreached,
                ", ".join(cause.value for cause in each.causes) or "none in the list", "yes" if each.is_silent else "",
            )
            for each in all_operators().values()
        ),
    )  # fmt: skip


def page(
    chosen: Sequence[Mutant], judged: Mapping[Mutant, Judged], *, root: Path, lost: float | None = None
) -> Iterator[str]:
    """Yield the written part of the page."""
    found = list(groups(planted(chosen, root=root, lost=lost), judged))
    outcomes = [outcome for each in chosen if (outcome := Outcome.read(each.folder(root)))]
    subjects: set[Subject] = {group.mutant.subject for group in found}
    seeds = max(Counter(each.subject.name for each in chosen if each.operator is None).values(), default=0)
    yield (
        f"{len(outcomes)} of {len(chosen)} trainings are stored, twins among them: {len(subjects)} programs of "
        f"{len({each.library for each in subjects})} libraries, {len({group.operator.name for group in found})} "
        f"operators, at most {seeds} seeds; {sum(each.seconds for each in outcomes) / 60:.0f} minutes of processor. "
        "Intervals are Wilson's at 95 %, and count seeds and programs as independent."
    )
    yield ""
    yield from tables(found)
    if crashed := sorted({rule for each in judged.values() for rule in each.crashed}):
        yield ""
        yield f"Crashed: {', '.join(crashed)}."
    yield ""
    yield "## Readings of the half `report`"
    yield ""
    yield from readings.table(readings.read_all())
    yield ""
    yield "## The operators"
    yield ""
    yield from operators_table()
    yield ""
    yield "## Published lists"
    yield ""
    yield from published_table()


def reading_of(found: Sequence[Group], *, choice: str) -> readings.Reading:
    """Return the sums of the half `report`.

    Args:
        found: Groups of any half.
        choice: The arguments by which they were chosen.
    """
    counted = [group for group in found if group.half == REPORT and group.fate in COUNTED and group.runs]
    on_most = [2 * sum(bool(mutant.beyond(twin)) for mutant, twin in group.runs) > len(group.runs) for group in counted]
    sums = Figures.of(counted)
    return readings.Reading(
        date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        rules=code_digest(),
        choice=choice,
        mutants=len(counted),
        runs=sums.runs,
        found=sums.found,
        nameable=sums.nameable,
        first=sums.first,
        in_two=sums.in_two,
        mutants_found=sum(on_most),
    )


def _choice(arguments: argparse.Namespace) -> str:
    words = [
        f"--half {arguments.half}" if arguments.half else "",
        f"--only {' '.join(arguments.only)}" if arguments.only else "",
        "--all" if arguments.all else "",
    ]
    drawn = f"--sample {arguments.sample} --draw {arguments.draw}" if arguments.sample is not None else ""
    return " ".join(filter(None, [*words, f"--seeds {arguments.seeds}", drawn]))


def main(words: Sequence[str] | None = None) -> int:
    """Judge and write; 1 if a rule crashed."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--write", type=Path, help="the page whose tables are replaced")
    options.add_argument("--read", action="store_true", help="read the half `report`, which counts as a reading")
    options.add_argument("--lost", type=float, help="count what lost this share, where seeds are too few for the test")
    arguments = options.parse_args(words)
    try:
        chosen = chosen_mutants(arguments)
    except ValueError as error:
        options.error(str(error))
    if arguments.read and arguments.lost is not None:
        options.error("--lost counts without a test, and a reading needs one: leave one of them out.")
    stored = planted(chosen, root=arguments.root, lost=arguments.lost)
    needed = to_judge(stored, is_read=arguments.read)
    ended = stored_of(needed, arguments.root)
    cards = judge_all([folder for _, folder in ended], processes=arguments.processes)
    judged = dict(zip((mutant for mutant, _ in ended), cards, strict=True))
    if arguments.read and any(mutant.half == REPORT for mutant in needed):
        readings.add(reading_of(list(groups(stored, judged)), choice=_choice(arguments)))
    put([*page(chosen, judged, root=arguments.root, lost=arguments.lost)], arguments.write, begin=MARKER)
    return 1 if any(each.crashed for each in judged.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
