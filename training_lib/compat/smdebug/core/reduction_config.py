"""The reductions of a tensor, saved beside or instead of its value. Pure data, JSON both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smdebug import not_offered
from smdebug.exceptions import SMDebugValueError

ALLOWED_REDUCTIONS = ["min", "max", "mean", "std", "variance", "sum", "prod"]
ALLOWED_NORMS = ["l1", "l2"]


class ReductionConfig:
    """The reductions and norms to save by name, of the tensor itself or of its absolute values.

    Raises:
        SMDebugValueError: A name is unknown, or a flag is no boolean.
    """

    def __init__(  # noqa: PLR0917 - the old signature
        self,
        reductions: list[str] | None = None,
        abs_reductions: list[str] | None = None,
        norms: list[str] | None = None,
        abs_norms: list[str] | None = None,
        save_raw_tensor: bool = False,
        save_shape: bool = False,
    ) -> None:
        self.reductions = _checked("reductions", reductions, ALLOWED_REDUCTIONS)
        self.abs_reductions = _checked("abs_reductions", abs_reductions, ALLOWED_REDUCTIONS)
        self.norms = _checked("norms", norms, ALLOWED_NORMS)
        self.abs_norms = _checked("abs_norms", abs_norms, ALLOWED_NORMS)
        for name, flag in (("save_raw_tensor", save_raw_tensor), ("save_shape", save_shape)):
            if not isinstance(flag, bool):
                raise SMDebugValueError(f"{name}={flag!r} must be True or False.")
        self.save_raw_tensor = save_raw_tensor
        self.save_shape = save_shape

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | None) -> ReductionConfig | None:
        """Return the reductions in the JSON form, one comma-separated text: `"mean,abs_max,l2_norm"`. None gives None.

        `l2` and `abs_l2`, which the original documents and refuses, are read as `l2_norm` and `abs_l2_norm`.
        """
        if params is None:
            return None
        if not isinstance(params, dict):
            raise SMDebugValueError(f"params={params!r} must be a dict.")
        sorted_in: dict[tuple[bool, bool], list[str]] = {(a, n): [] for a in (False, True) for n in (False, True)}
        for token in filter(None, map(str.strip, params.get("reductions", "").split(","))):
            is_abs = token.startswith("abs_")
            name = token.removeprefix("abs_")
            is_norm = name.endswith("_norm") or name in ALLOWED_NORMS
            sorted_in[is_abs, is_norm].append(name.removesuffix("_norm"))
        return cls(
            reductions=sorted_in[False, False],
            abs_reductions=sorted_in[True, False],
            norms=sorted_in[False, True],
            abs_norms=sorted_in[True, True],
            save_raw_tensor=params.get("save_raw_tensor", False),
            save_shape=params.get("save_shape", False),
        )

    @classmethod
    def from_json(cls, json_str: str) -> ReductionConfig | None:
        return cls.from_dict(json.loads(json_str))

    def to_json_dict(self) -> dict[str, Any]:
        tokens = [
            *self.reductions,
            *(f"{name}_norm" for name in self.norms),
            *(f"abs_{name}" for name in self.abs_reductions),
            *(f"abs_{name}_norm" for name in self.abs_norms),
        ]
        return {
            "save_raw_tensor": self.save_raw_tensor,
            "reductions": ",".join(tokens),
            "save_shape": self.save_shape,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionConfig):
            return NotImplemented
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"<class ReductionConfig: {fields}>"


def _checked(field: str, names: list[str] | None, allowed: list[str]) -> list[str]:
    unknown = [name for name in names or () if name not in allowed]
    if unknown:
        raise SMDebugValueError(f"{field} can only be one of {','.join(allowed)}; got {unknown[0]!r}.")
    return [] if names is None else names


__getattr__ = not_offered.attribute_of(__name__)
