"""The SDK's classes for saving tensors: `DebuggerHookConfig`, `CollectionConfig`, `TensorBoardOutputConfig`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trackside.documents.sdk.parameter_texts import settled, texts


class CollectionConfig:
    """One collection to save.

    name        name of the collection
    parameters  values by name, of any type; they become texts
    """

    def __init__(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.parameters = None if parameters is None else settled(parameters)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectionConfig):
            return NotImplemented
        return (self.name, self.parameters) == (other.name, other.parameters)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted((self.parameters or {}).items()))))

    def __repr__(self) -> str:
        return f"CollectionConfig({self.name!r}, {self.parameters!r})"

    def _to_request_dict(self) -> dict[str, Any]:
        if self.parameters is None:
            return {"CollectionName": self.name}
        return {"CollectionName": self.name, "CollectionParameters": texts(self.parameters)}


class DebuggerHookConfig:
    """The collections that the hook saves, and the original's output paths.

    s3_output_path               returned by a translation as `s3_output_path`
    container_local_output_path  read, and not used
    hook_parameters              settings for all collections, by name
    collection_configs           the collections
    """

    def __init__(
        self,
        s3_output_path: str | None = None,
        container_local_output_path: str | None = None,
        hook_parameters: Mapping[str, Any] | None = None,
        collection_configs: Iterable[CollectionConfig] | None = None,
    ) -> None:
        self.s3_output_path = s3_output_path
        self.container_local_output_path = container_local_output_path
        self.hook_parameters = None if hook_parameters is None else settled(hook_parameters)
        self.collection_configs = None if collection_configs is None else list(collection_configs)

    def _to_request_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {"S3OutputPath": self.s3_output_path}
        if self.container_local_output_path is not None:
            document["LocalPath"] = self.container_local_output_path
        if self.hook_parameters is not None:
            document["HookParameters"] = texts(self.hook_parameters)
        if self.collection_configs is not None:
            document["CollectionConfigurations"] = [each._to_request_dict() for each in self.collection_configs]
        return document


class TensorBoardOutputConfig:
    """The output of files for TensorBoard.

    s3_output_path               folder or s3:// prefix of the files
    container_local_output_path  read, and not used
    """

    def __init__(self, s3_output_path: str, container_local_output_path: str | None = None) -> None:
        self.s3_output_path = s3_output_path
        self.container_local_output_path = container_local_output_path

    def _to_request_dict(self) -> dict[str, Any]:
        document = {"S3OutputPath": self.s3_output_path}
        if self.container_local_output_path is not None:
            document["LocalPath"] = self.container_local_output_path
        return document
