"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.session
import hypothesis
import pytest
from hypothesis import HealthCheck
from xdist.scheduler import LoadGroupScheduling

from tests.browser import open_browser
from tests.warm_python import WarmPython

# Keras reads its backend when it is imported; by default it would be TensorFlow, which is not installed here.
os.environ.setdefault("KERAS_BACKEND", "torch")  # noqa: TID251 - Keras has no other way in
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # noqa: TID251 - Keras sets it itself
# Read where a library is loaded, here and in what tests start. Several processes with a thread for each core wait for
# one another's threads within each small operation: on two busy cores one of batch normalisation took 44 ms.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # noqa: TID251

# A shell that starts the suite in the background hands SIGINT and SIGQUIT down as ignored, to children too; so does
# `nohup` with SIGHUP.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# An example that took longer than 0.2 s would be a failure, and so would slow drawing: on a busy machine any may be.
hypothesis.settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis.settings.load_profile("any-machine")

TESTS = Path(__file__).parent
LONGEST = (
    "journeys",
    "benchmarks",
    "examples",
    "training_lib/frameworks",
    "training_lib/adapters",
    "rule_containers",
    "smdebug",
    "stacks",
)


# What `make quick` runs: the words, the formats, the capture, the reader, the rules, the evaluator and the decisions of
# the functions, in this process. Not: random inputs (hypothesis), trainings of minutes, processes, servers, accounts.
QUICK = (
    "architecture",
    "lambdas",
    "training_lib/capture",
    "training_lib/choosing",
    "training_lib/containers",
    "training_lib/contracts",
    "training_lib/evaluation",
    "training_lib/frameworks/pytorch",
    "training_lib/language",
    "training_lib/local",
    "training_lib/presets",
    "training_lib/records",
    "training_lib/rehearsal",
    "training_lib/rescue",
    "training_lib/rules",
    "training_lib/runs",
    "training_lib/speed",
    "training_lib/storage",
    "training_lib/trial",
)
NOT_QUICK_FILES = (
    "architecture/test_dead_code.py",
    "architecture/test_extras.py",
    "architecture/test_readme.py",
    "architecture/test_site.py",
    "architecture/test_tutorial.py",
    "capture/statistics/test_statistics_log.py",
    "evaluation/test_main.py",
    "evaluation/test_same_verdicts.py",
    "evaluation/test_slow_rules.py",
    "lambdas/test_hostile_inputs.py",
    "local/test_evaluator_process.py",
    "local/test_run.py",
    "local/test_training_process.py",
    "records/test_untrusted_json.py",
    "storage/test_custom_stores_page.py",
    "storage/test_s3.py",
    "trial/test_odd_files.py",
    "trial/test_requests_of_a_watched_run.py",
    "trial/tensors/test_step_values.py",
)
# What `make test` leaves to `make thorough`: whole stories with real stacks and processes, trainings of benchmarks,
# storms of faults, launchers, notebooks, compilers, trainers of others in environments of their own, random inputs, and
# the local account, which is an emulator and changes with its own code.
THOROUGH = (
    "architecture/test_site.py",
    "architecture/test_tutorial.py",
    "benchmarks/test_capture_overhead.py",
    "benchmarks/test_corpus_subset.py",
    "benchmarks/test_faults.py",
    "benchmarks/test_faults_in_processes.py",
    "benchmarks/test_fleet_kills.py",
    "benchmarks/test_rehearsal.py",
    "benchmarks/test_silent.py",
    "benchmarks/test_strict_account.py",
    "benchmarks/test_wild_subset.py",
    "examples",
    "fuzz",
    "journeys",
    "smdebug/test_drop_in_scenarios.py",
    "smdebug/test_interop_random.py",
    "smdebug/test_the_blog.py",
    "smdebug/test_the_training_script.py",
    "stacks/test_changed_settings.py",
    "stacks/test_upgrade.py",
    "training_lib/frameworks/life/test_launchers.py",
    "training_lib/frameworks/life/test_notebook.py",
    "training_lib/frameworks/life/test_notebook_displays.py",
    "training_lib/frameworks/life/test_report_notebook.py",
    "training_lib/frameworks/shared/test_rehearsed_steps.py",
    "training_lib/frameworks/situations/test_compiled.py",
    "training_lib/frameworks/situations/test_distributed.py",
    "training_lib/frameworks/situations/test_losses_of_trainers.py",
    "training_lib/frameworks/situations/test_sharded_life.py",
    "training_lib/frameworks/situations/test_trainers.py",
    "training_lib/localaccount",
    "training_lib/rules/program/test_unlike_gradients_of_processes.py",
    "training_lib/rules/test_parts_in_turn.py",
    "training_lib/rules/test_real_runs.py",
)
NOT_QUICK_FIXTURES = {"account", "bucket", "client", "server", "warm_python"}


class ByFile(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """A file, or a group that it names, goes to one process: what is made once for a file is made once."""

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).partition("::")[0]


def _is_below(place: str, folders: tuple[str, ...]) -> bool:
    """Return True for one of the folders, or what lies in one: `local` is not the beginning of `localaccount`."""
    return any(f"{place}/".startswith(f"{folder}/") for folder in folders)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of which nothing is run."""
    if collection_path == TESTS or not collection_path.is_relative_to(TESTS):
        return None
    place, part = collection_path.relative_to(TESTS).as_posix(), config.getoption("--part")
    return None if _has_tests_of(place, part) else True


def _has_tests_of(place: str, part: str) -> bool:
    """Return True if a folder or file below `tests` may hold tests of a part of the suite; "" is all of it."""
    if part == "quick":
        return (_is_below(place, QUICK) or _is_on_the_way(place, QUICK)) and not _is_below(place, THOROUGH)
    if part == "thorough":
        return _is_below(place, THOROUGH) or _is_on_the_way(place, THOROUGH)
    return part != "usual" or not _is_below(place, THOROUGH)


def _is_on_the_way(place: str, folders: tuple[str, ...]) -> bool:
    return any(each.startswith(f"{place}/") for each in folders)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of cores, and one more: a fifth of the time tests wait for processes that they started."""
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # by the number of tests: then journeys, few and long, would come last
    return ByFile(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        choices=("", "quick", "usual", "thorough"),
        default="",
        help="a part of the suite: as `make quick` and `make test` run it, or what `make test` leaves out",
    )


def _is_quick(item: pytest.Item) -> bool:
    place = item.path.relative_to(TESTS).as_posix()
    fixtures = set(getattr(item, "fixturenames", ()))
    return (
        _is_below(place, QUICK)
        and not place.endswith(NOT_QUICK_FILES)
        and not fixtures & NOT_QUICK_FIXTURES
        and not getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        and item.get_closest_marker("slow") is None
    )


@functools.cache
def _is_in_part(path: Path, part: str) -> bool:
    return not path.is_relative_to(TESTS) or _has_tests_of(path.relative_to(TESTS).as_posix(), part)


@functools.cache
def _rank_of(path: Path) -> int:
    folder = path.relative_to(TESTS).as_posix()
    return next((place for place, each in enumerate(LONGEST) if folder.startswith(f"{each}/")), len(LONGEST))


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives on: to look among it for garbage, again and again, takes a seventh of the time."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no process ends the suite alone."""
    part = config.getoption("--part")
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_chosen = _is_in_part(item.path, part) and (part != "quick" or _is_quick(item))
        (chosen if is_chosen else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    items[:] = sorted(chosen, key=lambda item: _rank_of(item.path))


@pytest.fixture(scope="module", autouse=True)
def _forget_existing_variables() -> None:
    """What lives when a file begins, ten thousand tests and the modules of PyTorch, is out of the collector's sight:
    of every collection's, and of a capture's, which looks for models among all live objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _leave_the_environment_as_it_was() -> Iterator[None]:
    """A variable that a file's tests leave set, like moto's keys, changes tests that the same worker runs later."""
    before = dict(os.environ)  # noqa: TID251 - compared only
    yield
    after = dict(os.environ)  # noqa: TID251
    by_others = ("PYTEST_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "KMP_")  # the last by OpenMP, with torch
    names = {name for name in before.keys() | after.keys() if not name.startswith(by_others)}
    changed = {name: after.get(name) for name in names if before.get(name) != after.get(name)}
    assert not changed, f"The tests of this file leave environment variables changed: {changed}"


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Runs scripts without the three seconds of `import torch`, where how a Python starts is not what is tested."""
    python = WarmPython()
    yield python
    python.close()


class _Folders(list[str]):
    """Folders to search, each once: every session of boto3 adds its own to them."""

    def append(self, folder: str) -> None:
        if folder not in self:
            super().append(folder)


@pytest.fixture(scope="session", autouse=True)
def _read_the_descriptions_of_aws_once() -> Iterator[None]:
    """Each session of boto3 would look for the descriptions of services and parse them; tests make thousands."""

    @functools.cache
    def shared(folders: str | None) -> botocore.loaders.Loader:
        loader = botocore.loaders.create_loader(folders)
        loader._search_paths = _Folders(loader._search_paths)
        return loader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", shared)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, for one file of tests; they are skipped where it or Playwright is missing."""
    with open_browser() as opened:
        yield opened
