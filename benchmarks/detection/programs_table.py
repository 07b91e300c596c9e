"""Prints the corpus as tables for the documentation: every program and every planted fault.

python -m benchmarks.detection.programs_table
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.corpus.fault_classes import FAULT_CLASSES
from benchmarks.detection.corpus.program import Program


def tables(programs: Mapping[str, Program]) -> Iterator[str]:
    """Lines of Markdown."""
    faults = sum(len(program.faults) for program in programs.values())
    odd = sum(bool(program.odd) for program in programs.values())
    yield f"{len(programs)} programs, {odd} of them right but odd; {faults} faults of {len(FAULT_CLASSES)} classes."
    yield ""
    yield "| program | split | data | model | what it does | odd, though right | faults |"
    yield "|---|---|---|---|---|---|---|"
    for program in programs.values():
        planted = ", ".join(fault.name for fault in program.faults)
        cells = [program.name, program.split, program.data, program.model, program.summary, program.odd, planted]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "| class of fault | what it is | causes that name it rightly | planted in |"
    yield "|---|---|---|---|"
    for fault_class in FAULT_CLASSES.values():
        where = [name for name, one in programs.items() if any(f.kind == fault_class.id for f in one.faults)]
        causes = ", ".join(cause.value for cause in fault_class.causes)
        yield f"| {fault_class.id} | {fault_class.summary} | {causes} | {', '.join(where)} |"


if __name__ == "__main__":
    print("\n".join(tables(all_programs())))
