"""Names of the metrics about the reactions themselves, which the alarms and the dashboard use.

Powertools writes them into the log (embedded metric format), with the dimension `service`: the reaction's name.
"""

NAMESPACE = "Trackside/Reactions"  # not that of IssuesFound, which is about training jobs

DETECTION_LATENCY = "DetectionLatency"  # record_verdict: seconds from a verdict to its record
SWEEPS = "Sweeps"  # reconcile: sweeps that came to their end
WATCHED_JOBS = "WatchedJobs"  # reconcile: running training jobs that opted in
SILENT_EVALUATORS = "SilentEvaluators"  # reconcile: those of them with an evaluator that gives no sign of life
