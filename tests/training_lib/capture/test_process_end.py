"""How capture ends with a real process: every row of the exit matrix, in a subprocess without torch."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS

START = """
import ctypes, os, signal, sys, threading, time
from trackside.capture.process_end import ProcessEnd
def say(word):
    os.write(1, (word + " ").encode())
def end():
    return ProcessEnd(
        close=lambda: say("close"), close_on_sigterm=lambda: say("term-close"), flush=lambda: say("flush")
    )
def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
def stuck_child():
    # It waits within C, where no handler of Python's is called, and is terminated.
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        signal.siginterrupt(signal.SIGTERM, False)  # the call goes on after a handler
        silent, _ = os.pipe()
        os.write(write, b"x")
        ctypes.CDLL(None).read(silent, ctypes.create_string_buffer(1), 1)
    os.read(read, 1), time.sleep(0.3)  # for the second call
    os.kill(child, signal.SIGTERM)
    for _ in range(200):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return f"child:{status}"
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return "child lives"
"""


@pytest.mark.parametrize(
    ("body", "words", "returncode"),
    [
        pytest.param("end().install()", ["close"], 0, id="normal"),
        pytest.param("end().install(); sys.exit(3)", ["close"], 3, id="exit-code"),
        pytest.param("end().install(); raise KeyboardInterrupt", ["close"], -signal.SIGINT, id="ctrl-c"),
        pytest.param("end().install(); 1 / 0", ["close"], 1, id="exception"),
        pytest.param("end().install(); terminate()", ["term-close"], -signal.SIGTERM, id="sigterm"),
        pytest.param("end().install(); os._exit(4)", [], 4, id="hard-exit"),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: say('user'))\nend().install(); terminate(); say('on')",
            ["flush", "user", "on", "close"],
            0,
            id="the-users-handler-goes-on-training",
        ),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nend().install(); terminate()",
            ["flush", "close"],
            9,
            id="the-users-handler-exits",
        ),
        pytest.param(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nend().install(); terminate(); say('on')",
            ["on", "close"],
            0,
            id="sigterm-ignored-stays-ignored",
        ),
        pytest.param(
            "t = threading.Thread(target=lambda: end().install()); t.start(); t.join()\n"
            "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL",
            ["close"],
            0,
            id="not-in-the-main-thread",
        ),
        pytest.param(
            "e = end(); e.install(); t = threading.Thread(target=e.remove); t.start(); t.join()\n"
            "say('on'); terminate()",
            ["on"],
            -signal.SIGTERM,
            id="removed-in-another-thread",
        ),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: say('user'))\ne = end(); e.install()\n"
            "t = threading.Thread(target=e.remove); t.start(); t.join(); terminate(); say('on')",
            ["user", "on"],
            0,
            id="removed-in-another-thread-beside-the-users-handler",
        ),
        pytest.param(
            "end().install()\nif os.fork() == 0: sys.exit(0)\nsay(f'child:{os.wait()[1]}')",
            ["child:0", "close"],
            0,
            id="fork-child-exits",
        ),
        pytest.param(
            "end().install()\nif os.fork() == 0: terminate()\nsay(f'child:{os.wait()[1]}')",
            [f"child:{int(signal.SIGTERM)}", "close"],
            0,
            id="fork-child-is-terminated",
        ),
        pytest.param(
            "end().install(); say(stuck_child())",
            [f"child:{int(signal.SIGTERM)}", "close"],
            0,
            id="fork-child-stuck-in-c-is-terminated",
        ),
        pytest.param(
            "end().install(); end().install(); say(stuck_child())",
            [f"child:{int(signal.SIGTERM)}", "close", "close"],
            0,
            id="fork-child-of-two-runs-stuck-in-c-is-terminated",
        ),
        pytest.param(
            "end().install(); t = threading.Thread(target=lambda: say(stuck_child())); t.start(); t.join()",
            [f"child:{int(signal.SIGTERM)}", "close"],
            0,
            id="fork-child-of-a-thread-stuck-in-c-is-terminated",
        ),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nend().install()\n"
            "if os.fork() == 0: terminate()\nsay(f'child:{os.waitstatus_to_exitcode(os.wait()[1])}')",
            ["child:9", "close"],
            0,
            id="fork-child-keeps-the-users-handler",
        ),
        pytest.param("e = end(); e.install(); e.remove(); terminate()", [], -signal.SIGTERM, id="removed"),
    ],
)
def test_exit_matrix(body: str, words: list[str], returncode: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START + body)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert (done.stdout.split(), done.returncode) == (words, returncode), done.stderr
