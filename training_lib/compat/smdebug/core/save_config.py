"""The steps at which tensors are saved, by mode. Pure data, JSON both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from smdebug import not_offered
from smdebug.core.modes import ModeKeys
from smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from trackside.contracts.capture_request import DEFAULT_SAVE_INTERVAL, Schedule


class SaveConfigMode:
    """The schedule of one mode: every `save_interval` steps within [start_step, end_step), and at `save_steps` too.

    Numbers may be texts, as SageMaker passes them.
    """

    def __init__(
        self,
        save_interval: int | str | None = None,
        start_step: int | str | None = None,
        end_step: int | str | None = None,
        save_steps: list[int] | None = None,
    ) -> None:
        self.save_interval = DEFAULT_SAVE_INTERVAL if save_interval is None else int(save_interval)
        self.start_step = 0 if start_step is None else int(start_step)
        self.end_step = None if end_step is None else int(end_step)
        self.save_steps = [] if save_steps is None else save_steps
        if not isinstance(self.save_steps, list) or not all(isinstance(step, int) for step in self.save_steps):
            raise SMDebugValueError(f"save_steps={save_steps!r} must be a list of whole numbers.")

    def should_save_step(self, step_num: int) -> bool:
        """Return True if this step of the mode is due."""
        schedule = Schedule(self.save_interval, self.start_step, self.end_step, tuple(self.save_steps))
        return schedule.is_due(step_num)

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "save_interval": self.save_interval,
            "save_steps": self.save_steps,
            "start_step": self.start_step,
            "end_step": self.end_step,
        }

    @classmethod
    def from_dict(
        cls, params: Mapping[str, Any] | None, default_values: Mapping[str, Any] | None = None
    ) -> SaveConfigMode | None:
        """Return the schedule in a dict; None for None.

        Absent values come from `default_values`, then from the defaults.
        """
        if params is None:
            return None
        for name, given in (("params", params), ("default_values", default_values or {})):
            if not isinstance(given, dict):
                raise SMDebugTypeError(f"{name}={given!r} is not a dict.")
        names = ("save_interval", "start_step", "end_step", "save_steps")
        return cls(**{name: params.get(name, (default_values or {}).get(name)) for name in names})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SaveConfigMode):
            return NotImplemented
        return self.to_json_dict() == other.to_json_dict()

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value}" for name, value in self.to_json_dict().items())
        return f"<class SaveConfig: {fields}>"


class SaveConfig:
    """A schedule for each mode: one for all of them, or `mode_save_configs`. An absent mode is None: undecided.

    Raises:
        SMDebugValueError: A key is no mode, or a value no `SaveConfigMode`.
    """

    def __init__(
        self,
        mode_save_configs: Mapping[ModeKeys, SaveConfigMode | None] | None = None,
        save_interval: int | str | None = None,
        start_step: int | str | None = None,
        end_step: int | str | None = None,
        save_steps: list[int] | None = None,
    ) -> None:
        self.mode_save_configs: dict[ModeKeys, SaveConfigMode | None]
        if mode_save_configs is None:
            self.mode_save_configs = {
                mode: SaveConfigMode(save_interval, start_step, end_step, save_steps) for mode in ModeKeys
            }
            return
        for mode, config in mode_save_configs.items():
            if not isinstance(mode, ModeKeys) or not (config is None or isinstance(config, SaveConfigMode)):
                raise SMDebugValueError(f"{mode!r}: {config!r} must be a mode and its SaveConfigMode.")
        self.mode_save_configs = {**mode_save_configs, **dict.fromkeys(set(ModeKeys) - set(mode_save_configs))}

    def get_save_config(self, mode: ModeKeys) -> SaveConfigMode:
        """Return the schedule of a mode.

        Raises:
            SMDebugValueError: The mode is undecided.
        """
        config = self.mode_save_configs[mode]
        if config is None:
            raise SMDebugValueError(f"{self} does not say when to save in mode {mode.name}.")
        return config

    def set_save_config(self, mode: ModeKeys, save_config_mode: SaveConfigMode) -> None:
        if not isinstance(save_config_mode, SaveConfigMode):
            raise SMDebugValueError(f"save_config_mode={save_config_mode!r} must be a SaveConfigMode.")
        self.mode_save_configs[mode] = save_config_mode

    def should_save_step(self, mode: ModeKeys, step_num: int) -> bool:
        return self.get_save_config(mode).should_save_step(step_num)

    def merge_default_save_config(self, default_save_config: SaveConfig) -> None:
        """Set undecided modes to those of the given one, or to the defaults."""
        for mode in ModeKeys:
            if self.mode_save_configs[mode] is None:
                self.mode_save_configs[mode] = default_save_config.mode_save_configs[mode] or SaveConfigMode()

    def to_json_dict(self) -> dict[str, Any]:
        return {
            mode.name: config.to_json_dict() if config else None
            for mode, config in sorted(self.mode_save_configs.items(), key=lambda item: item[0].value)
        }

    def to_json(self) -> str:
        return json.dumps(self.to_json_dict())

    @classmethod
    def from_dict(
        cls, params: Mapping[Any, Any] | None, default_values: Mapping[str, Any] | None = None
    ) -> SaveConfig | None:
        """Return the schedules in a dict; None for None.

        Keys are modes or their names. Values are `SaveConfigMode`, its JSON, or None.
        """
        if params is None:
            return None
        return cls(
            {
                _mode(key): value
                if isinstance(value, SaveConfigMode)
                else SaveConfigMode.from_dict(value, default_values)
                for key, value in params.items()
            }
        )

    @classmethod
    def from_json(cls, json_str: str) -> SaveConfig | None:
        return cls.from_dict(json.loads(json_str))

    @classmethod
    def from_save_config_mode(cls, save_config_mode: SaveConfigMode) -> SaveConfig:
        """Return one schedule for every mode."""
        return cls(dict.fromkeys(ModeKeys, save_config_mode))

    @classmethod
    def parse(cls, obj: object) -> SaveConfig | None:
        """Return a SaveConfig from None (the defaults), a SaveConfig, a SaveConfigMode or a dict.

        Raises:
            SMDebugTypeError: It is none of these.
        """
        if obj is None:
            return cls()
        if isinstance(obj, SaveConfig):
            return obj
        if isinstance(obj, SaveConfigMode):
            return cls.from_save_config_mode(obj)
        if isinstance(obj, dict):
            return cls.from_dict(obj)
        raise SMDebugTypeError(f"{obj!r} cannot be read as a SaveConfig.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SaveConfig):
            return NotImplemented
        return self.mode_save_configs == other.mode_save_configs

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"<class SaveConfig: {self.mode_save_configs}>"


def _mode(key: object) -> ModeKeys:
    if isinstance(key, str) and key in ModeKeys.__members__:
        return ModeKeys[key]
    if isinstance(key, ModeKeys):
        return key
    raise SMDebugValueError(f"{key!r} is not a mode. Modes: {', '.join(ModeKeys.__members__)}.")


__getattr__ = not_offered.attribute_of(__name__)
