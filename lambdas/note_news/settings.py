"""Settings of note_news."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class NoteNewsSettings(EnvironmentSettings):
    """`lease_table` is where workers of the fleet look for news of their runs."""

    lease_table: str
