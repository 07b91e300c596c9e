"""Settings of retention: how long data are kept."""

from __future__ import annotations

from dataclasses import dataclass

from stacks.settings.setting import between, setting

# What CloudWatch Logs offers, up to two years.
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)


def _check_log_retention(value: int) -> None:
    if value not in LOG_RETENTION_DAYS:
        raise ValueError(f"CloudWatch offers {', '.join(map(str, LOG_RETENTION_DAYS))}")


@dataclass(frozen=True)
class RetentionSettings:
    """Days for which data are kept.

    run_days      days until a run is deleted; 0: never
    record_days   days after its last change until the table of runs forgets a run; 0: never
    archive_days  days in which verdicts can be replayed
    log_days      days until the functions' logs are deleted
    """

    run_days: int = setting(90, between(0, 36_500), key="run_retention_days")
    record_days: int = setting(365, between(0, 36_500), key="record_retention_days")
    archive_days: int = setting(30, between(1, 36_500), key="archive_retention_days")
    log_days: int = setting(30, _check_log_retention, key="log_retention_days")
