"""A deployment in this account and region: the outputs of its stacks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from trackside.cloud.calls import Calls
from trackside.contracts.errors import ConfigurationError, LocationNotFoundError, Problem

STACKS = ("Storage", "Action", "Evaluation", "Record", "Monitoring")


class Deployment:
    """The outputs, by name, of the deployment of one `environment` ("": the one without).

    Raises:
        LocationNotFoundError: A stack does not exist.
        TracksideError: Any error of `Calls`.
    """

    def __init__(self, calls: Calls, *, environment: str = "") -> None:
        self._outputs: dict[str, str] = {}
        for concern in STACKS:
            self._outputs |= outputs_of(calls, concern, environment)

    @property
    def all_outputs(self) -> Mapping[str, str]:
        """All outputs by name."""
        return self._outputs

    def outputs(self, fixes: Mapping[str, str]) -> tuple[str, ...]:
        """Return the outputs of the given names.

        Args:
            fixes: Name of each output -> the step that would make it.

        Raises:
            ConfigurationError: Outputs are missing. Lists all of them.
        """
        missing = [Problem(name, "no stack has this output.", fixes[name]) for name in fixes if not self.has(name)]
        if missing:
            raise ConfigurationError(missing, subject="The deployment")
        return tuple(self._outputs[name] for name in fixes)

    def has(self, name: str) -> bool:
        """Return True if a stack has that output."""
        return name in self._outputs


def stack_name(concern: str, environment: str = "") -> str:
    """Return `TracksideStorage`, or `Trackside-staging-Storage`."""
    return f"Trackside-{environment}-{concern}" if environment else f"Trackside{concern}"


def outputs_of(calls: Calls, concern: str, environment: str = "") -> dict[str, str]:
    """Return the outputs of the stack of a concern, else of one stack with all parts: `Trackside`, `Trackside-staging`.

    Raises:
        LocationNotFoundError: Neither stack exists.
        TracksideError: Any error of `Calls`.
    """
    try:
        return read_outputs(calls, stack_name(concern, environment))
    except LocationNotFoundError:
        with suppress(LocationNotFoundError):
            return read_outputs(calls, stack_name("", environment).rstrip("-"))
        raise


def read_outputs(calls: Calls, stack: str) -> dict[str, str]:
    """Return the outputs of one stack.

    Raises:
        LocationNotFoundError: The stack does not exist.
        TracksideError: Any error of `Calls`.
    """
    try:
        (found,) = calls.call("cloudformation", "describe_stacks", StackName=stack)["Stacks"]
    except LocationNotFoundError as error:
        raise LocationNotFoundError(
            f"There is no stack {stack} in {calls.region}",
            advice="set AWS_REGION to where Trackside is deployed, name the deployment (--environment), or deploy it",
        ) from error
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}
