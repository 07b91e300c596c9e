"""Data types that the parts of a deployment in AWS share: records of its tables, jobs, metrics."""
