"""The environment of a container that is to find a local account."""

from __future__ import annotations


def local_environment(endpoint: str) -> dict[str, str]:
    """Nothing of this process's own, so that no test meets an account of somebody's."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "PATH": "/usr/bin:/bin",
    }
