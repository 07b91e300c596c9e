"""Paths in the checkout, and in the wheel `trackside-cdk`, which has the same layout below its package."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "training_lib" / "src" / "trackside"
LAMBDAS = ROOT / "lambdas"
BUILD = ROOT / "build"
LAMBDA_PACKAGES = ROOT / ".venv" / "lambda-packages"
CDK_JSON = ROOT / "cdk.json"
READY_CODE = ROOT / "lambda_code"  # in the wheel only
