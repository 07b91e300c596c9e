"""Runs inside the peer environment: which steps custom rules fire at under the real smdebug. JSON on stdin and out."""

from __future__ import annotations

import json
import sys

import peer  # noqa: F401  first: it puts empty modules in the place of what smdebug imports and does not need here

# isort: split
import custom_rules
from smdebug.trials import create_trial


def main() -> None:
    order = json.load(sys.stdin)
    answers = []
    for name, parameters, others in order["rules"]:
        more = {"other_trials": [create_trial(other) for other in others]} if others else {}
        rule = getattr(custom_rules, name)(create_trial(order["folder"]), **parameters, **more)
        answers.append(custom_rules.fired_steps(rule))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main()
