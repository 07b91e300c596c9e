"""The plan for a training that a Python program starts: its own choices, else those of the project's settings."""

from __future__ import annotations

from trackside.choosing.preflight import RulePlan, plan_rules
from trackside.choosing.program_rules import Rules, rules_of
from trackside.choosing.project_settings import ProjectSettings
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.rule_catalogue import built_in_catalogue


def plan_of(
    rules: Rules | None,
    *,
    settings: ProjectSettings,
    subject: str,
    actions: tuple[Action, ...] = (),
    save: CaptureRequest | None = None,
) -> RulePlan | None:
    """Return the plan for the rules and the tensors that a program chose, else for those of the project's settings.

    Args:
        rules: The rules; None for those of the project; `()` for none.
        settings: The project's settings.
        subject: Name of the caller in errors.
        actions: Actions on an issue.
        save: The tensors to save; None for the project's choice. The needs of the rules are added.

    Returns:
        The plan; None if no rule judges.

    Raises:
        ConfigurationError: With every problem at once.
    """
    chosen = rules_of(rules, subject=subject, settings=settings)
    if not chosen:
        return None
    interval = settings.values.get("save-interval")
    return plan_rules(
        chosen,
        catalogue=built_in_catalogue(),
        actions=actions,
        capture=save or settings.capture,
        save_interval=interval.value if interval and save is None else None,
        was_chosen=rules is not None,
    )
