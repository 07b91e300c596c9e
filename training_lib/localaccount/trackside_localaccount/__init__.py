"""The local AWS account: moto as a server, and what moto lacks. See docs/local-account.md."""

from __future__ import annotations

from trackside_localaccount.event_delivery import Chaos
from trackside_localaccount.server import LocalAccount

__all__ = ["Chaos", "LocalAccount"]
