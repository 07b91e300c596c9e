"""Rule containers in AWS: their task, their bounds, and the sinks of their verdicts."""
