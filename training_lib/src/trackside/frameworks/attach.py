"""A wait for the script's import of a known framework, which then attaches its adapter.

`trackside.pth` imports this module at the start of every Python process with a run in its environment, so it must be
light: it imports only built-in modules and creates nothing. The import of `importlib.abc` for a proper finder would
cost twenty times as much as all of this, hence the duck-typed one.
"""

from __future__ import annotations

import atexit
import sys
from _thread import get_ident
from os import environ  # noqa: TID251 - imported at each start of Python; our own module of it is not

TYPE_CHECKING = False  # spares the import of typing; type checkers know the name
if TYPE_CHECKING:
    from typing import Any

# Frameworks that tell why a run is empty.
KNOWN = ("torch", "tensorflow", "keras", "jax", "mxnet", "paddle", "xgboost", "lightgbm", "catboost", "sklearn")
ADAPTERS = {  # by name: adapters are never imported before their framework
    "torch": "trackside.frameworks.pytorch",
    "xgboost": "trackside.adapters.xgboost",
    "keras": "trackside.adapters.keras",
    "lightgbm": "trackside.adapters.lightgbm",
    "catboost": "trackside.adapters.catboost",
    "mxnet": "trackside.adapters.mxnet",
    "sklearn.base": "trackside.adapters.sklearn.fit_calls",
    "sklearn.neural_network": "trackside.adapters.sklearn.networks",
    "sklearn.ensemble": "trackside.adapters.sklearn.boosting",
}


class FrameworkFinder:
    """A meta-path finder that finds nothing by itself: the other finders do, and it gets notice of the import's end."""

    def __init__(self) -> None:
        self._at_work: set[int] = set()  # threads

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of the other finders for one of our frameworks, prepared; None for any other module."""
        thread = get_ident()
        if (
            name not in ADAPTERS or thread in self._at_work
        ):  # another finder searches like this one, through all finders
            return None
        self._at_work.add(thread)
        try:
            return _listening(_found_by_others(self, name, path, target), name)
        except Exception as error:  # noqa: BLE001 - the script's import must go on as if we were not there
            _log_failure(name, error)
            return None
        finally:
            self._at_work.discard(thread)


def _found_by_others(own: object, name: str, path: Any, target: Any) -> Any:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if finder is own or find_spec is None:
            continue
        spec = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _listening(spec: Any, name: str) -> Any:
    """Return the same spec with a loader that attaches the adapter once the framework is imported.

    Only the `exec_module` of this loader object is replaced.
    """
    if spec is None or spec.loader is None:
        return spec
    loader = spec.loader
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        loader.__dict__.pop("exec_module", None)  # the loader is itself again, whatever happens next
        execute(module)
        attach(name)

    loader.exec_module = exec_module
    return spec


def attach(name: str) -> None:
    """Attach the adapter of the framework `name`. On any failure print one line, and let the script go on."""
    try:
        from trackside.collection_pause import CollectionPause  # not earlier: most processes import no framework

        with CollectionPause():
            __import__(ADAPTERS[name])
            sys.modules[ADAPTERS[name]].attach()
    except Exception as error:  # noqa: BLE001 - the script goes on
        _log_failure(name, error)


def _log_failure(name: str, error: Exception) -> None:
    text = " ".join(str(error).split())
    sys.stderr.write(f"trackside: {name} is not captured, training goes on: {type(error).__name__}: {text}\n")


def report_at_exit() -> None:
    """Leave a report in the run if this process trained and captured nothing. Helper processes leave none."""
    found = tuple([name for name in KNOWN if name in sys.modules])
    if not found:
        return
    try:
        from trackside.frameworks.shared.uncaptured import report

        report(found)
    except Exception:  # noqa: BLE001, S110 - a full disk, for example; the report is an extra
        pass


def watch() -> None:
    """Start to wait for imports. A framework that is imported already is attached at once."""
    if any(isinstance(finder, FrameworkFinder) for finder in sys.meta_path):
        return
    for name in ADAPTERS:
        if name in sys.modules:
            attach(name)
    sys.meta_path.insert(0, FrameworkFinder())
    atexit.register(report_at_exit)  # registered first, so called last


def prepare_resumed_job() -> None:
    """In a job that goes on in another's place, move aside what it must not find. Other processes pay one look."""
    if "TRACKSIDE_RESUMED" in environ:
        name = "trackside.rescue.restarting.resumed_job"
        __import__(name)
        sys.modules[name].prepare()


prepare_resumed_job()
watch()
