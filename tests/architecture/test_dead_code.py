"""No code without a use: everything of the product is used by the product, its docs, its examples or its benchmarks.

Tests are no users: what only tests use is deleted, or stands in `ALLOWED` with the reason.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from vulture import Vulture  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
USERS = ("training_lib", "lambdas", "stacks", "rule_containers", "app.py", "docs", ".ci", "examples", "benchmarks")
CHECKED = ("training_lib/src/trackside/*", "lambdas/*", "stacks/*", "rule_containers/*", "app.py")

# Files whose names others call: pattern -> who.
CALLED_BY_OTHERS = {
    "training_lib/src/trackside/rules/*/*.py": "the catalogue, which walks these folders",
    **{
        f"training_lib/src/trackside/{room}/rules/*.py": "the catalogue, which walks these folders"
        for room in ("speed", "language", "presets")
    },
    "training_lib/src/trackside/testing/*": "authors of rules and stores; Moto, which finds its parts by name",
    "training_lib/src/trackside/sagemaker/*": "notebooks: the names are those of the SageMaker SDK",
    "training_lib/src/trackside/documents/*": "notebooks: the names are those of the SageMaker SDK",
    "training_lib/src/trackside/cli/*": "click",
    "training_lib/src/trackside/agents/server.py": "mcp, by the names of the tools",
    "training_lib/src/trackside/agents/answers.py": "agents: answers are written whole",
    "stacks/hatch_build.py": "hatchling",
    "training_lib/src/trackside/integrations/*": "trainers, trackers and pytest, by the names of their own interfaces",
    "training_lib/src/trackside/rehearsal/questions/*": "the registry, which walks this folder",
    "training_lib/src/trackside/evidence/questions/*": "the registry, which walks this folder",
    "training_lib/src/trackside/frameworks/pytorch/losses/detectors/*": "`losses/detector.py`, which walks this folder",
    "training_lib/src/trackside/frameworks/pytorch/facts/detectors/*": "`facts/detector.py`, which walks this folder",
}
# Name -> why it stays.
ALLOWED = {
    # Called by Python and by libraries.
    "__cause__": "Python: tracebacks show it",
    "__dir__": "Python",
    "__getattr__": "Python",
    "__prepare_scriptable__": "torch",
    "__signature__": "Python: inspect.signature",
    "_value_": "Enum",
    "before_training": "XGBoost",
    "external_attr": "zipfile",
    **dict.fromkeys(("handle_data", "handle_endtag", "handle_startendtag", "handle_starttag"), "html.parser"),
    **dict.fromkeys(("do_GET", "do_OPTIONS", "log_message"), "http.server"),
    "memo": "Python: the argument of __deepcopy__",
    "list_available_services": "botocore",
    "trace": "Python: the third argument of __exit__",
    "vpc_config": "CDK: an attribute of a resource",
    "writeable": "NumPy: a flag of an array",
    # Public API, described in docs/.
    "by_seconds": "Schedule, for capture requests in Python",
    "step_number": "trackside.Hook",
    "heatmap": "Trial: layers over steps, for notebooks",
    "to_pandas": "Column",
    "Adapter": "the protocol, for authors of adapters",
    "DEPRECATED": "LifeCycle, for authors of rules",
    "VersionedStore": "the protocol of a capability, for authors of stores",
    # Fields of documents that are written whole.
    "finding_count": "RuleRecord",
    "forward_own": "ModuleTimes, which `trackside profile` reads from JSON",
    "tensor_uri": "Evidence",
    "ACTIVATIONS": "ModelFacts: the words of a field",
    "ROLES": "ModelFacts: the words of a field",
    # Only tests look, because nothing else can see the promise being kept.
    "compaction_error": "the failure that a run survives",
    "kept_bytes": "the bound on memory",
    "load_rules": "the rules of installed packages, all at once",
    "next_due_step": "the oracle of what ModeSchedule passes over",
}


@pytest.fixture(scope="module")
def unused() -> dict[str, str]:
    """Name -> where it is defined, of everything that nothing uses."""
    search = Vulture()
    search.scavenge([str(ROOT / name) for name in USERS if (ROOT / name).exists()])
    found = {}
    for item in search.get_unused_code(min_confidence=60):
        path = str(Path(item.filename).relative_to(ROOT))
        if any(fnmatch(path, one) for one in CHECKED) and not any(fnmatch(path, one) for one in CALLED_BY_OTHERS):
            found[item.name] = f"{path}:{item.first_lineno}"
    return found


def test_everything_is_used(unused: dict[str, str]) -> None:
    assert {name: place for name, place in unused.items() if name not in ALLOWED} == {}


def test_no_exception_is_out_of_date(unused: dict[str, str]) -> None:
    assert set(ALLOWED) - set(unused) == set()
