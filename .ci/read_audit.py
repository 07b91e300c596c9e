"""The result of pip-audit in a few lines. An audit that reached no server is no clean result.

python .ci/read_audit.py REPORT WARNINGS CODE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NOT_AUDITED = 3
OWN = ("trackside", "trackside-smdebug")  # not on PyPI


def judge(report: dict[str, Any]) -> tuple[int, list[str]]:
    """Return (exit code, lines) for pip-audit's JSON report."""
    packages = [each for each in report["dependencies"] if each["name"] not in OWN]
    audited = [each for each in packages if "skip_reason" not in each]
    if not audited:
        where = "PyPI's list of vulnerabilities (https://pypi.org/pypi/NAME/VERSION/json) does not answer here"
        what = f"None of {len(packages)} packages could be audited: {where}."
        return NOT_AUDITED, [f"{what} Run `make audit` on a machine that reaches it."]
    lines = [
        f"{each['name']} {each['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version yet'}"
        for each in audited
        for one in each["vulns"]
    ]
    left = len(packages) - len(audited)
    also = f"; {left} could not be looked up" if left else ""
    return (1 if lines else 0), [*lines, f"{len(audited)} packages audited, {len(lines)} vulnerabilities known{also}."]


def main() -> int:
    """Print the vulnerabilities. Return the exit code of the audit."""
    report, warnings, code = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if code not in (0, 1) or not report.is_file():
        print(f"pip-audit ended with {code}:\n{warnings.read_text()[-1000:]}", file=sys.stderr)
        return NOT_AUDITED
    answer, lines = judge(json.loads(report.read_text()))
    print("\n".join(lines), file=sys.stderr if answer else sys.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main())
