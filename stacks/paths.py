"""Paths in the checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "training_lib" / "src" / "trackside"
LAMBDAS = ROOT / "lambdas"
BUILD = ROOT / "build"
LAMBDA_PACKAGES = ROOT / ".venv" / "lambda-packages"
