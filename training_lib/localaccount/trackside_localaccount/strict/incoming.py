"""A request as its operation's model sees it: which operation it is, and its parameters, by the service's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError
from moto.core.model import OperationModel
from moto.core.parse import PROTOCOL_PARSERS, JSONParser, RequestParserError, RestJSONParser
from moto.core.request import determine_request_protocol
from moto.core.utils import get_service_model

_JSON_NAMES = {
    str: "STRING_VALUE",
    bool: "BOOLEAN_VALUE",
    int: "NUMBER_VALUE",
    float: "NUMBER_VALUE",
    list: "START_ARRAY",
    dict: "START_OBJECT",
}
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "character": (str,),
    "blob": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "long": (int, float),
    "short": (int, float),
    "byte": (int, float),
    "float": (int, float, str),  # "NaN" and "Infinity" are texts
    "double": (int, float, str),
    "timestamp": (int, float, str),
}


class UnreadableError(Exception):
    """A request of which the protocol can make nothing: no JSON, or another type than the model has."""


@dataclass(frozen=True)
class Incoming:
    """One request. `service` as boto3 has it; `protocol` is the protocol of the request."""

    service: str
    operation: OperationModel
    protocol: str
    parameters: Mapping[str, Any]


def read(response: Any) -> Incoming | None:
    """Return the request that moto's response object was made for; None if no model knows its operation.

    Args:
        response: An instance of moto's `BaseResponse`, set up for a request.

    Raises:
        UnreadableError: A value is not of the type that the model has.
        RequestParserError: The body is not of the protocol.
    """
    service, request = response.boto3_service_name, response.normalized_request
    try:
        model = get_service_model(service)
        operation = model.operation_model(response._get_action())
        protocol = determine_request_protocol(model, request.content_type)
        parser = _PARSERS[protocol](operation)
    except (UnknownServiceError, OperationNotFoundError, NotImplementedError, KeyError):
        return None
    try:
        parameters = parser.parse(
            {
                "method": request.method,
                "values": request.values,
                "headers": request.headers,
                "body": request.data,
                "url_path": request.path,
                "url_params": response.uri_match,
            }
        )
    except RequestParserError:
        raise  # the body is not of the protocol
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableError(str(error)) from error
    return Incoming(service, operation, protocol, parameters)


class _StrictTypes:
    """moto's JSON parsers, which take any value for any type."""

    def _parse_shape(self, shape: Any, node: Any) -> Any:
        is_of_the_body = "location" not in shape.serialization
        allowed = _JSON_TYPES.get(shape.type_name)
        if is_of_the_body and node is not None and allowed and not getattr(shape, "is_document_type", False):
            is_right = isinstance(node, allowed) and (bool in allowed or not isinstance(node, bool))
            if not is_right and not isinstance(node, bytes):
                given = _JSON_NAMES.get(type(node), "NULL_VALUE")
                raise UnreadableError(f"{given} can not be converted to {shape.type_name.capitalize()}")
        return super()._parse_shape(shape, node)  # type: ignore[misc]

    def _parse_body_as_json(self, contents: bytes) -> Any:
        parsed = super()._parse_body_as_json(contents)  # type: ignore[misc]
        if isinstance(parsed, dict) and list(parsed) == ["message"] and contents[:1] not in (b"{", "{"):
            raise UnreadableError("Unexpected character: the body is not JSON")
        return parsed


class _StrictJson(_StrictTypes, JSONParser):
    pass


class _StrictRestJson(_StrictTypes, RestJSONParser):
    pass


_PARSERS = {**PROTOCOL_PARSERS, "json": _StrictJson, "rest-json": _StrictRestJson}
