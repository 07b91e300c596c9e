"""What workers of the fleet tell of themselves: the alarms, the scaling and the dashboard know these names, too."""

from __future__ import annotations

NAMESPACE = "Trackside/Fleet"
FLEET = "Fleet"  # the one dimension: the event bus of the deployment
LOAD = "WorkerLoad"  # percent of the runs that a worker could judge at once
JUDGED_RUNS = "JudgedRuns"  # of one worker
WAITING_RUNS = "WaitingRuns"  # that nobody judges, as one worker saw them; 100 at most
LONGEST_WAIT = "LongestWait"  # seconds for which the first of them has waited
