"""The switch that forbids all stops, and the memory of it: a switch that is deployed anew forbids what it forbade."""

from __future__ import annotations

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.run_table import RunTable

FIRST_VERSION = 1  # of a parameter that nobody has changed since it was made


def forbids_stops(parameter: str, table: RunTable) -> bool:
    """Return True if no training job may be stopped, and let the table of runs remember it.

    Every value but `false` forbids stops, so that a mistyped switch stops nothing. The table is kept when stacks are
    destroyed and the parameter is not: a `false` that came with a deployment does not take back what a person has set.

    Args:
        parameter: Name of the SSM parameter.
        table: Table of runs.

    Errors: `ClientError`.
    """
    found = client("ssm").get_parameter(Name=parameter)["Parameter"]
    is_set = str(found["Value"]).strip().lower() != "false"
    remembered = table.forbade_stops()
    forbids = is_set or (remembered and found["Version"] == FIRST_VERSION)
    if forbids != remembered:
        table.note_switch(forbids=forbids)
    return forbids


def remember_switch(parameter: str, table: RunTable) -> None:
    """Let the table of runs remember what a person has set, whether or not a stop is decided on.

    Args:
        parameter: Name of the SSM parameter.
        table: Table of runs.

    Errors: `ClientError`.
    """
    try:
        forbids_stops(parameter, table)
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":  # its stack is being deployed anew
            raise
