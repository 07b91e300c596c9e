"""Store a rule request in a run and return the arguments of CreateTrainingJob that start its capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.contracts.job_choice import RUN_TAG
from trackside.contracts.run_layout import RULE_REQUEST_KEY, RunLocation
from trackside.documents.requests import Translation
from trackside.documents.sdk.translation import capture_variables, log_notes, translate


@dataclass(frozen=True)
class PreparedRun:
    """Arguments of CreateTrainingJob for a run that is captured and judged."""

    environment: Mapping[str, str]
    tags: tuple[Mapping[str, str], ...]
    translation: Translation


def prepare_run(
    run: str,
    rules: Iterable[Any] = (),
    *,
    debugger_hook_config: Any = None,
    profiler_config: Any = None,
    tensorboard_output_config: Any = None,
    preset: str = "",
) -> PreparedRun:
    """Store `rule-request.json` in a run and return the arguments of its training job.

    Args:
        run: A folder or an s3:// address.
        rules: `Rule` and `ProfilerRule` objects, of this package or of the SDK.
        debugger_hook_config: As an Estimator takes it.
        profiler_config: As an Estimator takes it.
        tensorboard_output_config: As an Estimator takes it.
        preset: "calibrated", "aws-docs" or "aws-sdk", for rules without a preset of their own.

    Raises:
        ConfigurationError: The objects cannot be translated; nothing is stored then.
        OSError: The store failed.
    """
    translation = translate(
        rules,
        debugger_hook_config=debugger_hook_config,
        profiler_config=profiler_config,
        tensorboard_output_config=tensorboard_output_config,
        preset=preset,
    )
    environment = capture_variables(run, translation.capture)
    from trackside.storage.open_store import open_store  # brings NumPy, which is not needed otherwise

    open_store(RunLocation(run).uri).put(RULE_REQUEST_KEY, translation.request.to_json().encode())
    return PreparedRun(environment, ({"Key": RUN_TAG, "Value": RunLocation(run).uri},), log_notes(translation))
