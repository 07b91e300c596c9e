"""A process under the real smdebug that imports it once and carries out each order in a fork of its own."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.patience import HANGS_SECONDS

SCRIPT = Path(__file__).with_name("peer.py")


class PeerError(Exception):
    """The peer gave no answer; the message has what it printed."""


class PeerProcess:
    """Orders to `peer.py`, one after the other."""

    def __init__(self, python: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", SCRIPT],
            env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, command: str, order: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> Any:
        """Return the answer to an order, which is carried out with an environment. Errors: `PeerError`."""
        answer, printed = folder / "answer.json", folder / "printed.txt"
        request = {
            "command": command,
            "order": order,
            "answer": str(answer),
            "printed": str(printed),
            "environment": dict(environment),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], HANGS_SECONDS)[0]:
            raise PeerError(f"No answer to {command!r} within {HANGS_SECONDS:.0f} s.")
        status = self._process.stdout.readline().strip()
        if status != "0":
            raise PeerError(f"{command!r} ended with {status or 'nothing'}.\n{printed.read_text()[-3000:]}")
        return json.loads(answer.read_text())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait(HANGS_SECONDS)
