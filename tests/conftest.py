"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import functools
import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.session
import pytest
from xdist.scheduler import LoadGroupScheduling

from tests.warm_python import WarmPython

# A shell that starts the suite in the background hands SIGINT and SIGQUIT down as ignored, to children too; so does
# `nohup` with SIGHUP.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

TESTS = Path(__file__).parent
LONGEST = ("journeys", "benchmarks", "examples", "training_lib/frameworks", "rule_containers", "smdebug", "stacks")


class ByFile(LoadGroupScheduling):
    """A file, or a group that it names, goes to one process: what is made once for a file is made once."""

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # by the number of tests: then journeys, few and long, would come last
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no process ends the suite alone."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(TESTS).as_posix()
        return next((place for place, each in enumerate(LONGEST) if folder.startswith(f"{each}/")), len(LONGEST))

    items.sort(key=rank)


@pytest.fixture(scope="module", autouse=True)
def _forget_what_is_there_already() -> None:
    """What lives when a file begins, ten thousand tests and the modules of PyTorch, is out of the collector's sight:
    of every collection's, and of a capture's, which looks for models among all live objects."""
    gc.collect()
    gc.freeze()


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
