"""Settings of accounts: hub and spokes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stacks.settings.setting import each_matching, empty_or, matching, setting

MOST_SPOKES = 50  # each is a principal of the bus's policy, which holds 10,240 characters
MOST_BUS_CHARACTERS_WITH_SPOKES = 40  # roles are named after it and the region, with at most 64 characters


@dataclass(frozen=True)
class AccountSettings:
    """Several accounts; docs/hub-and-spokes.md.

    spoke_accounts  `123456789012,…`: accounts whose training jobs [this hub](hub-and-spokes.md) watches
    hub_account     makes of this deployment [a spoke](hub-and-spokes.md) of that account; nothing else is made
    organization    `o-…`: hub and spokes must be of it
    """

    spoke_accounts: tuple[str, ...] = setting((), each_matching(r"\d{12}", "an account", "123456789012", MOST_SPOKES))
    hub_account: str = setting("", empty_or(matching(r"\d{12}", "'123456789012'")))
    organization: str = setting("", empty_or(matching(r"o-[a-z0-9]{10,32}", "'o-exampleorgid'")))


def account_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of settings that do not go together. `values`: all, each of the right type."""
    if values["hub_account"] and values["spoke_accounts"]:
        yield "hub_account", "makes this a spoke, which has no spoke_accounts of its own."
    bus = f"{values['event_bus_name']}-{values['environment']}"
    if (values["spoke_accounts"] or values["hub_account"]) and len(bus) > MOST_BUS_CHARACTERS_WITH_SPOKES:
        yield (
            "event_bus_name",
            f"must have at most {MOST_BUS_CHARACTERS_WITH_SPOKES - 1} characters, environment and all.",
        )
