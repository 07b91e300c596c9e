"""The process behind `warm_python.py`: imports a framework and Trackside once, then forks one child for each script.

Run as `python -c "from tests.warm_fork_server import serve; serve(FD, FRAMEWORK)"`, FD being a connected Unix socket.
An order is one JSON object with four file descriptors: standard input, output, error, and a pipe for the exit status.
Orders end with the connection, and so does this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import multiprocessing.process
import os
import select
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

START_UP_FILE = Path(__file__).parents[1] / "training_lib" / "trackside.pth"
# The modules that are withheld until the script imports them, and others that are imported beforehand.
IMPORTS = {
    # The first optimizer imports the second one; whether it is there already is something that a capture asks.
    "torch": (
        ("torch", "torch._dynamo"),
        (
            "boto3.session",
            "trackside.evaluation.__main__",
            "trackside.containers.rule_container",
            "trackside.frameworks.pytorch",
            "trackside.storage.s3",
        ),
    ),
    "lightgbm": (("lightgbm",), ("pandas", "scipy.sparse", "sklearn.base", "trackside.adapters.lightgbm.adapter")),
    "xgboost": (("xgboost",), ("pandas", "scipy.sparse", "sklearn.base", "trackside.adapters.xgboost.adapter")),
    # Its modules import one another, so that none can be withheld: its adapters attach themselves as the child begins.
    "sklearn": (
        (),
        (
            "sklearn.ensemble",
            "sklearn.neural_network",
            *(f"sklearn.{name}" for name in ("calibration", "cluster", "decomposition", "feature_selection")),
            *(f"sklearn.{name}" for name in ("linear_model", "metrics", "model_selection", "naive_bayes", "neighbors")),
            *(f"sklearn.{name}" for name in ("pipeline", "preprocessing", "svm", "tree")),
            "trackside.adapters.sklearn.boosting",
            "trackside.adapters.sklearn.fits",
            "trackside.adapters.sklearn.networks",
        ),
    ),
}
ORDER_BYTES = 1 << 20


def serve(connection_fd: int, framework: str) -> None:
    """Fork a child for each order. Return in a child only, whose script has then ended by Ctrl-C."""
    withheld, others = IMPORTS[framework]
    _import_what_scripts_import([*withheld, *others])
    connection = socket.socket(fileno=connection_fd)
    connection.send(b"ready")
    running: dict[int, tuple[int, int]] = {}  # by pidfd: the process and the pipe for its status
    while True:
        watched: list[socket.socket | int] = [connection, *running]
        ready, _, _ = select.select(watched, [], [])
        for pidfd in [one for one in ready if isinstance(one, int)]:
            _report(pidfd, *running.pop(pidfd))
        if connection not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(connection, ORDER_BYTES, 4)
        if not message:
            os._exit(0)  # the tests are over: nothing of theirs is to be run on the way out
        pid = os.fork()
        if pid == 0:
            _become(json.loads(message), descriptors, withheld)
            return
        connection.send(str(pid).encode())
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        running[os.pidfd_open(pid)] = (pid, descriptors[3])


def _report(pidfd: int, pid: int, status_pipe: int) -> None:
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(status_pipe, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(status_pipe)
    os.close(pidfd)


def _import_what_scripts_import(modules: Sequence[str]) -> None:
    import numpy as np

    for name in modules:
        importlib.import_module(name)
    if "trackside.evaluation" in sys.modules:
        importlib.import_module("trackside.rules.catalogue").built_in_rules()

    np.random.seed(0)
    main = sys.modules["__main__"].__dict__
    for name in set(main) - {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"}:
        del main[name]
    main["__annotations__"] = {}
    gc.collect()
    gc.freeze()


def _become(order: dict[str, Any], descriptors: Sequence[int], withheld: Sequence[str]) -> None:
    """Make this child the process that `python SCRIPT` would be, run the script, and end as Python would."""
    for number in range(3):
        os.dup2(descriptors[number], number)
    # Objects of this process may close their descriptors later: the numbers stay taken, or they would close others'.
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != nowhere:
            with suppress(OSError):  # the one that listed them
                os.fstat(int(name))
                os.dup2(nowhere, int(name), inheritable=False)
    if order["new_session"]:
        os.setsid()
    environment: dict[str, str] = order["environment"]
    os.environ.clear()  # noqa: TID251 - the child's whole environment is set here
    os.environ.update(environment)  # noqa: TID251
    os.chdir(order["cwd"])
    script: str = order["script"]
    sys.argv[:] = [script, *order["arguments"]]
    sys.orig_argv[:] = [sys.executable, *sys.argv]
    more_paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = [os.path.dirname(os.path.realpath(script)), *more_paths]
    multiprocessing.process.ORIGINAL_DIR = order["cwd"]  # type: ignore[attr-defined]
    tempfile.tempdir = None
    sys.modules["numpy"].random.seed()
    sys.meta_path.insert(0, _Withheld(withheld))
    exec(START_UP_FILE.read_text(), {})  # noqa: S102 - as `site` does, before the script
    _run(script)


def _run(script: str) -> None:
    """What Python itself calls for `python SCRIPT`: a traceback has no frame of ours, `sys.exit` ends the process."""
    open_file = ctypes.CDLL(None).fopen
    open_file.restype = ctypes.c_void_p
    run_file = ctypes.pythonapi.PyRun_SimpleFileExFlags
    run_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    path = os.fsencode(script)
    if run_file(open_file(path, b"rb"), path, 1, None) and getattr(sys, "last_type", None) is not KeyboardInterrupt:
        sys.exit(1)
    # After Ctrl-C, Python's own main function sends the signal to itself once all has ended: so we return to it.


class _Withheld:
    """A finder that gives modules out which have been imported before, when the script imports them."""

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            parent, _, child = name.rpartition(".")
            if parent:
                del sys.modules[parent].__dict__[child]
        self._modules = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        module = self._modules.get(name)
        if module is None or module.__spec__ is None:
            return None
        found = importlib.machinery.ModuleSpec(name, _Given(module, module.__spec__), origin=module.__spec__.origin)
        found.submodule_search_locations = module.__spec__.submodule_search_locations
        return found


class _Given(importlib.abc.Loader):
    """A loader whose module is there already."""

    def __init__(self, module: ModuleType, spec: importlib.machinery.ModuleSpec) -> None:
        self._module, self._spec = module, spec

    def create_module(self, _: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
