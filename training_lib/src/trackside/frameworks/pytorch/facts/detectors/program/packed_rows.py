"""Documents packed into one row of tokens that see one another.

Where the positions that a model is given begin anew within a row, the script itself says that documents end there. What
attention sees of other documents is read from the graph of what the model returns, so by whatever mask it came.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import MIXED_DOCUMENTS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.losses.attention import attention_nodes, see_across
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.shared.detectors import watches

MOST_CALLS = 3  # with an answer
_MOST_TRIES = 10  # calls with packed rows, whether their graph answers or not
_POSITIONS = "position_ids"  # as the models of transformers, and those written after them, name it


@watches(MIXED_DOCUMENTS)
class PackedRows:
    """Calls of the model in which documents of one row see one another."""

    def __init__(self, watch: Watch) -> None:
        self._model: nn.Module | None = None  # the outermost module of the open call
        self._documents: torch.Tensor | None = None
        self._mixed = self._answers = self._tries = 0

    def outermost_called(self, module: nn.Module) -> None:
        """Note the module of a call, and forget a call that an exception has ended."""
        is_over = self._answers == MOST_CALLS or self._tries == _MOST_TRIES
        self._model, self._documents = None if is_over else module, None

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note the documents in the rows of an outermost call."""
        if module is not self._model or not torch.is_grad_enabled():
            return
        positions = kwargs.get(_POSITIONS)
        if isinstance(positions, torch.Tensor) and not is_in_cuda_graph(positions):
            self._documents = documents_of(positions)

    def returned(self, module: nn.Module, output: Any) -> None:
        """Look at what attention saw, as that call returns."""
        if module is not self._model:
            return
        documents, self._model, self._documents = self._documents, None, None
        end = next((tensor.grad_fn for tensor in flatten(output) if tensor.grad_fn is not None), None)
        if documents is None or end is None:
            return
        self._tries += 1
        with torch.no_grad():
            answer = see_across(attention_nodes(end), documents)
        self._answers += answer is not None
        self._mixed += answer is True

    def of(self, watch: Watch) -> int:
        """Return the number of such calls."""
        return self._mixed


def documents_of(positions: torch.Tensor) -> torch.Tensor | None:
    """Return the number of the document at each place: (rows, places); None if no row holds two.

    A document begins where a position of 0 is followed by 1, after positions that rose: padding, whose positions stand
    still, neither begins nor ends one.

    Args:
        positions: Positions of tokens, as a model is given them.
    """
    if positions.ndim != 2 or positions.shape[1] < 4 or positions.is_floating_point() or not has_memory(positions):
        return None
    rose = positions[:, 1:-2] == positions[:, :-3] + 1
    begins = rose & (positions[:, 2:-1] == 0) & (positions[:, 3:] == 1)
    if not bool(begins.any()):
        return None
    return torch.nn.functional.pad(begins.long(), (2, 1)).cumsum(1)
