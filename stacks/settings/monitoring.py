"""Settings of monitoring: intervals of Trackside's checks of itself, and limits of its alarms."""

from __future__ import annotations

from dataclasses import dataclass

from stacks.settings.setting import between, setting


@dataclass(frozen=True)
class MonitoringSettings:
    """Sweeps and alarms.

    reconcile_minutes          time between two sweeps for [what events missed](#what-events-missed)
    silence_minutes            time without a sign of life of an evaluator that raises [an alarm](#alarms)
    detection_latency_seconds  time from a verdict to its record that raises one
    oldest_message_minutes     time that a message waits for its function that raises one
    dashboard                  `true`: also makes [a dashboard](#alarms) in CloudWatch
    """

    reconcile_minutes: int = setting(5, between(1, 1_440))
    silence_minutes: int = setting(30, between(10, 1_440), key="evaluator_silence_minutes")
    detection_latency_seconds: int = setting(300, between(10, 86_400))
    # A stop that waits for its veto lies in the queue for up to 15 minutes.
    oldest_message_minutes: int = setting(30, between(20, 1_440))
    dashboard: bool = setting(False)
