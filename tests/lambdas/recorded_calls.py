"""The calls of AWS that each function makes, as the tests of the functions see them: for the test of their roles.

tests/lambdas/calls.json holds them. A test that makes another call fails; `pytest tests/lambdas --write-calls` (in one
process) adds it. To drop what no test calls any more, remove the file first, and run the whole folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from botocore.client import BaseClient
from botocore.signers import RequestSigner

FILE = Path(__file__).with_name("calls.json")
LAMBDAS = Path(__file__).parents[2] / "lambdas"
_CODE = re.compile(re.escape(str(LAMBDAS)) + r"/(?!shared/)(?P<function>\w+)/\w+\.py")
# What of a request names the resource, by operation. Of others the resource is in the function's settings.
_NAMES = {
    "GetObject": "Key",
    "PutObject": "Key",
    "GetParameter": "Name",
    "CreateProcessingJob": "ProcessingJobName",
    "DescribeProcessingJob": "ProcessingJobName",
    "AddTags": "ResourceArn",
    "ListTags": "ResourceArn",
}
_MADE_UP = "made-up"  # the part of a name that a test has chosen


class Calls:
    """Function -> operation (`s3:PutObject`) -> names of resources."""

    def __init__(self, known: Mapping[str, Mapping[str, list[str]]]) -> None:
        self.found: dict[str, dict[str, set[str]]] = {}
        self._known = known

    @classmethod
    def of_file(cls) -> Calls:
        return cls(json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {})

    def add(self, function: str, operation: str, resource: str) -> bool:
        """Note a call. Returns whether the file has it."""
        self.found.setdefault(function, {}).setdefault(operation, set()).add(resource)
        return resource in self._known.get(function, {}).get(operation, ())

    def write(self) -> None:
        """Add the calls that were noted to the file."""
        for function, operations in self._known.items():
            for operation, names in operations.items():
                self.found.setdefault(function, {}).setdefault(operation, set()).update(names)
        document = {
            function: {operation: sorted(names) for operation, names in sorted(operations.items())}
            for function, operations in sorted(self.found.items())
        }
        FILE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8", newline="\n")

    @contextmanager
    def recorded(self) -> Iterator[set[str]]:
        """Note every call of a function within the block. Yields those that the file lacks, as they come."""
        unknown: set[str] = set()
        call = BaseClient._make_api_call

        def recorded(client: Any, operation: str, request: Mapping[str, Any]) -> Any:
            function = running_function()
            if function:
                name = f"{client.meta.service_model.signing_name}:{operation}"
                resource = resource_of(operation, request)
                if not self.add(function, name, resource):
                    unknown.add(f"{function}: {name} of {resource or 'its resource'}")
            return call(client, operation, request)

        sign = RequestSigner.generate_presigned_url

        def signed(signer: Any, request_dict: Mapping[str, Any], **more: Any) -> Any:
            """Whoever opens a signed link calls in the name of the function."""
            resource = resource_of(more["operation_name"], {"Key": request_dict["url_path"].lstrip("/")})
            function = running_function()
            if function and not self.add(function, f"s3:{more['operation_name']}", resource):
                unknown.add(f"{function}: a link for {more['operation_name']} of {resource}")
            return sign(signer, request_dict, **more)

        with (
            mock.patch.object(BaseClient, "_make_api_call", recorded),
            mock.patch.object(RequestSigner, "generate_presigned_url", signed),
        ):
            yield unknown


def running_function() -> str:
    """The function with the outermost code in the stack; "" without one."""
    frame: Any = sys._getframe()
    function = ""
    while frame is not None:
        if found := _CODE.fullmatch(frame.f_code.co_filename):
            function = found["function"]
        frame = frame.f_back
    return function


def resource_of(operation: str, request: Mapping[str, Any]) -> str:
    """The name of the resource, without what only the test has chosen."""
    name = str(request.get(_NAMES.get(operation, ""), ""))
    if operation in {"GetObject", "PutObject"}:
        return re.sub(r"^.*?/(?=(debug-output|rule-output|rule-request\.json))", f"{_MADE_UP}/", name)
    if name.startswith("arn:"):
        return re.sub(r"(?<=-job/).*", _MADE_UP, name.split(":", 5)[5])
    return re.sub(r"(?<=^trackside-).*", _MADE_UP, name)
