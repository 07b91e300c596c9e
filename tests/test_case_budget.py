"""How many cases each folder of tests may have, so that the suite stays quick: each costs every process its collection.

A folder that needs more first looks for promises about all of something (`tests/for_each.py`), and for tables whose
rows ask the same; then its number goes up, in the commit that says why.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import NOT_QUICK_FILES, QUICK, TESTS, THOROUGH

# At most a fifth more than on 1 December 2026, so that a table may get a row.
MOST_CASES = {
    "": 40,
    "architecture": 480,
    "benchmarks": 470,
    "examples": 55,
    "fuzz": 20,
    "journeys": 150,
    "lambdas": 1100,
    "rule_containers": 86,
    "smdebug": 805,
    "stacks": 550,
    "training_lib": 150,
    "training_lib/adapters": 550,
    "training_lib/agents": 65,
    "training_lib/capture": 865,
    "training_lib/choosing": 150,
    "training_lib/cli": 880,
    "training_lib/cloud": 130,
    "training_lib/contracts": 770,
    "training_lib/diagnosis": 235,
    "training_lib/documents": 185,
    "training_lib/evidence": 120,
    "training_lib/evaluation": 485,
    "training_lib/exchange": 140,
    "training_lib/frameworks": 2818,
    "training_lib/imported": 178,
    "training_lib/integrations": 60,
    "training_lib/local": 241,
    "training_lib/localaccount": 730,
    "training_lib/presets": 121,
    "training_lib/language": 126,
    "training_lib/clusters": 80,
    "training_lib/containers": 70,
    "training_lib/profiling": 108,
    "training_lib/records": 830,
    "training_lib/rehearsal": 308,
    "training_lib/rescue": 232,
    "training_lib/rules": 966,
    "training_lib/runs": 356,
    "training_lib/sagemaker": 210,
    "training_lib/situation": 137,
    "training_lib/speed": 514,
    "training_lib/storage": 680,
    "training_lib/testing": 28,
    "training_lib/trial": 715,
    "training_lib/views": 730,
}


def room_of(path: Path) -> str:
    """Return the folder of tests that a file counts for: `lambdas`, `training_lib/rules`; "" for those at the top."""
    parts = path.relative_to(TESTS).parent.parts
    return "/".join(parts[: 2 if parts[:1] == ("training_lib",) else 1])


def test_no_folder_has_more_cases_than_its_budget(request: pytest.FixtureRequest) -> None:
    """All cases of a run of everything; those that were chosen in a run of some."""
    counts = Counter(room_of(item.path) for item in request.session.items)
    beyond = {room: count for room, count in counts.items() if count > MOST_CASES.get(room, 0)}
    assert not beyond, f"of { ({room: MOST_CASES.get(room, 0) for room in beyond}) }"


def test_every_folder_with_tests_has_a_budget() -> None:
    assert {room_of(path) for path in TESTS.rglob("test_*.py")} == set(MOST_CASES)


@pytest.mark.parametrize("places", [QUICK, THOROUGH], ids=["quick", "thorough"])
def test_each_place_of_a_part_exists(places: tuple[str, ...]) -> None:
    assert not [place for place in places if not (TESTS / place).exists()]


def test_each_file_that_is_not_quick_exists() -> None:
    files = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]
    assert not [name for name in NOT_QUICK_FILES if not any(file.endswith(name) for file in files)]
