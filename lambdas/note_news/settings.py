"""Settings of note_news."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class NoteNewsSettings(EnvironmentSettings):
    """Settings of note_news.

    lease_table  table in which workers of the fleet look for news of their runs
    """

    lease_table: str
