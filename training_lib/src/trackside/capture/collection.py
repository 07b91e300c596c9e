"""Which tensor belongs to which collection: by smdebug's regexes and the user's own."""

from __future__ import annotations

import re

from trackside.contracts.capture_request import CaptureRequest

# smdebug 1.0.34, PyTorch; matched anywhere in the name (re.search).
BUILT_IN_REGEX = {
    "losses": r"[Ll]oss_(?!input).*output",
    "weights": r"^(?!gradient).*weight",
    "biases": r"^(?!gradient).*bias",
    "gradients": r"^gradient",
}


class Membership:
    """Answers which collections a tensor belongs to, and computes it once per name."""

    def __init__(self, request: CaptureRequest) -> None:
        requested = {c.name: c.include_regex for c in request.collections}
        self.regexes: dict[str, tuple[str, ...]] = {
            name: tuple(filter(None, (BUILT_IN_REGEX.get(name), *requested.get(name, ()))))
            for name in dict.fromkeys((*BUILT_IN_REGEX, *requested))
        }
        self._compiled = {name: [re.compile(r) for r in regexes] for name, regexes in self.regexes.items()}
        self._known: dict[str, frozenset[str]] = {}

    def of(self, tensor_name: str) -> frozenset[str]:
        """The collections that `tensor_name` belongs to."""
        known = self._known.get(tensor_name)
        if known is None:
            known = self._known[tensor_name] = frozenset(
                name for name, regexes in self._compiled.items() if any(r.search(tensor_name) for r in regexes)
            )
        return known
