"""The local AWS account: moto as a server, and what moto lacks. See docs/local-account.md."""

from __future__ import annotations

from trackside.testing.local_account.event_delivery import Chaos
from trackside.testing.local_account.server import LocalAccount

__all__ = ["Chaos", "LocalAccount"]
