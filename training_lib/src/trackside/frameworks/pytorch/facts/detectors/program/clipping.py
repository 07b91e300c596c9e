"""The clippings of gradients."""

from __future__ import annotations

from trackside.contracts.observations import CLIPPINGS, ClippingFacts
from trackside.frameworks.pytorch.facts.detector import InScript, Watch
from trackside.frameworks.shared.detectors import watches


@watches(CLIPPINGS)
class Clippings:
    """The calls that clip gradients, by kind and limit."""

    def __init__(self, watch: Watch) -> None:
        self._places = watch.clipping

    def of(self, watch: Watch) -> tuple[InScript, ...]:
        """Return the clippings so far."""
        return tuple(InScript(place, ClippingFacts(*kind)) for kind, place in list(self._places.items()))
