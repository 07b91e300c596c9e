"""The asset holds the reactions, the contracts, the packages that they import, and nothing else."""

from __future__ import annotations

from stacks.lambda_code import prepare_lambda_code
from stacks.lambda_packages import fetched_packages
from stacks.paths import LAMBDAS, LIBRARY


def test_holds_the_reactions_the_contracts_and_their_packages() -> None:
    folder = prepare_lambda_code()
    files = {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "pycache" not in str(path)
    }
    wanted = {f"lambdas/{path.relative_to(LAMBDAS)}" for path in LAMBDAS.rglob("*.py")}
    contracts = [path for path in (LIBRARY / "contracts").rglob("*") if path.suffix in (".py", ".json")]
    wanted |= {f"trackside/{path.relative_to(LIBRARY)}" for path in contracts}
    packages = fetched_packages()
    wanted |= {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}
    assert files == wanted | {"trackside/__init__.py"}


def test_the_same_sources_are_the_same_folder() -> None:
    first = prepare_lambda_code()
    made = first.stat().st_mtime_ns
    assert prepare_lambda_code() == first
    assert first.stat().st_mtime_ns == made
