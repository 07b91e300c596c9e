"""Judges stored runs of the corpus by today's rules, and shows the alarms of the tune half.

    python -m benchmarks.wild.judge                 # a line for each run with an alarm
    python -m benchmarks.wild.judge --only bert --cards

Rules and their settings are those of `trackside run` without any option. A judgement is kept beside the run, and holds
as long as the code of rules, evaluation and reading does. Single runs of the report half are never shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from benchmarks.engine.judge import Judged, judge_all
from benchmarks.engine.options import parser
from benchmarks.engine.stored import stored_of
from benchmarks.wild.program import TUNE
from benchmarks.wild.run import Job, add_choice, chosen_programs, jobs
from trackside.contracts.verdict import Severity


def lines(job: Job, judged: Judged, *, has_cards: bool) -> Iterator[str]:
    """Yield the alarms of a run, for people."""
    for each in judged.at_least(Severity.WARNING):
        recovered = ", recovered" if each.is_recovered else ""
        at = f"at step {each.step} of {judged.steps}{recovered}, loss {' to '.join(map(str, judged.losses))}"
        yield f"{job.name}: {each.severity.value} {each.rule} {at}"
        if has_cards:
            yield f"    {each.message}"
            yield f"    observed since step {each.since}: {each.lead}"
            yield from (f"    likely: {text}" for text in each.reasons)
            yield from (f"    what to do: {text}" for text in each.what_to_do)


def main(words: Sequence[str] | None = None) -> int:
    """Print the alarms of the tune half; 1 if a rule crashed."""
    options = parser(__doc__)
    add_choice(options)
    options.add_argument("--cards", action="store_true", help="with the text of each alarm")
    options.add_argument("--processes", type=int, default=1)
    arguments = options.parse_args(words)
    arguments.split = TUNE
    chosen = list(jobs(chosen_programs(arguments), seeds=arguments.seeds))
    stored = stored_of(chosen, arguments.root)
    judged = list(judge_all([folder for _, folder in stored], processes=arguments.processes))
    for (job, _), each in zip(stored, judged, strict=True):
        print(*lines(job, each, has_cards=arguments.cards), sep="\n", end="\n" if each.alarms else "")
    print(f"{len(judged)} of {len(chosen)} runs of the half `{TUNE}` judged")
    return 1 if any(each.crashed for each in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
