"""Install the wheel with combinations of extras into environments of their own, and run every command in each.

.ci/check_extras.py [EXTRAS ...]     EXTRAS: "none", "cli", "cli,aws", ...; without any: the usual combinations

It needs an index of packages and some minutes, so that `make check` leaves it out. The daily test
tests/architecture/test_extras.py hides packages instead. Exit 1 if any command reports a mistake of Trackside's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.architecture.test_extras import COMMANDS, SCRIPT  # noqa: E402
from trackside.environment import inherited  # noqa: E402

USUAL = ("none", "cli", "aws", "cli,aws", "cli,parquet", "cli,aws,parquet")
MISTAKE = "Trackside made a mistake"


def main(arguments: list[str]) -> int:
    """Check the combinations. Return 1 if any command failed as none should."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        for number, extras in enumerate(arguments or USUAL):
            failed += check(Path(folder) / f"venv-{number}", wheel, extras)
    return int(failed > 0)


def built(folder: Path) -> Path:
    """Return the wheel of this checkout, built into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def check(place: Path, wheel: Path, extras: str) -> int:
    """Return the number of commands that failed as none should, in a new environment."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    wanted = str(wheel) if extras == "none" else f"{wheel}[{extras}]"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted], check=True)
    work = place / "work"
    work.mkdir()
    environ = {name: text for name, text in inherited().items() if not name.startswith(("AWS_", "PYTHON"))}
    done = subprocess.run(
        [python, SCRIPT, ""],
        input=json.dumps([shlex.split(line) for line in COMMANDS]),
        cwd=work,
        env={**environ, "HOME": str(work), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(done.stdout)
    failures = [result for result in results if result["code"] == 70 or MISTAKE in result["stderr"]]
    advice = sorted(
        {line.strip() for result in results for line in result["stderr"].splitlines() if " install " in line}
    )
    print(f"{extras}: {len(results)} commands, {len(failures)} failed")
    for line in advice:
        print(f"  {line}")
    for result in failures:
        print(f"  FAILED trackside {' '.join(result['arguments'])}\n{result['stderr']}")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
