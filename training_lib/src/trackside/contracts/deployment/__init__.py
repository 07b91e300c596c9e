"""The words that a deployment in AWS shares with itself: records of its tables, jobs, metrics."""
