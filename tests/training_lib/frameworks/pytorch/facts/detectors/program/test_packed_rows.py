"""Documents packed into one row of tokens: seen apart, seen by one another, and rows that are not packed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.observations import MIXED_DOCUMENTS
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.facts.detectors.program.packed_rows import MOST_CALLS, documents_of
from trackside.records.model_facts import read_facts
from trackside.storage.local import LocalStore

LENGTH, PIECE = 12, 4
PACKED = torch.arange(PIECE).repeat(LENGTH // PIECE)[None]
WHOLE = torch.arange(LENGTH)[None]
EARLIER = torch.ones(LENGTH, LENGTH).tril().bool()
DOCUMENT = torch.arange(LENGTH) // PIECE
OWN = EARLIER & (DOCUMENT[:, None] == DOCUMENT)
REQUEST = CaptureRequest((CollectionRequest("inputs", Schedule(2)),))
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def fused(mask: torch.Tensor) -> Attend:
    return lambda query, key, value: functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def added(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~OWN, torch.finfo(torch.float32).min)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[None, None])


def by_hand(mask: torch.Tensor) -> Attend:
    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return scores.masked_fill(~mask, torch.finfo(torch.float32).min).softmax(-1) @ value

    return attend


class Decoder(nn.Module):
    """A small language model of one layer, with positions as an argument."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(16, 8), nn.Embedding(LENGTH, 8)
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 16)
        self.attend = attend

    def forward(self, ids: torch.Tensor, position_ids: torch.Tensor | None = None) -> torch.Tensor:
        places = WHOLE if position_ids is None else position_ids
        embedded = self.tokens(ids) + self.places(places)
        parts = self.qkv(embedded).view(*ids.shape, 3, 2, 4).permute(2, 0, 3, 1, 4)
        out: torch.Tensor = self.head(self.attend(*parts).transpose(1, 2).flatten(2))
        return out


def mixed(run: Path, attend: Attend, positions: torch.Tensor | None) -> int:
    """Return the number of calls with mixed documents of a training of a few steps."""
    torch.manual_seed(0)
    adapter = PyTorchAdapter(CaptureEnvironment(str(run), REQUEST.to_json(), 0, 1))
    adapter.install()
    try:
        model, ids = Decoder(attend), torch.randint(0, 16, (3, LENGTH))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(12):
            out = model(ids) if positions is None else model(ids, position_ids=positions)
            optimizer.zero_grad()
            functional.cross_entropy(out.flatten(0, 1), ids.flatten()).backward()
            optimizer.step()
        del model
    finally:
        adapter.uninstall()
    return MIXED_DOCUMENTS.of(read_facts(LocalStore(RunLocation(str(run)).tensors), "worker_0")[-1].program)


MIXED = {
    "fused, of all earlier tokens": (causal, PACKED),
    "fused, by a mask of all earlier tokens": (fused(EARLIER), PACKED),
    "by hand": (by_hand(EARLIER), PACKED),
    "positions of each row": (causal, PACKED.expand(3, -1)),
}
APART = {
    "fused, by a mask of documents": (fused(OWN), PACKED),
    "fused, by a mask that is added": (added, PACKED),
    "by hand": (by_hand(OWN), PACKED),
    "one document in a row": (causal, WHOLE),
    "no positions": (causal, None),
    "padding on the left": (causal, torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]])),
    "padding on the right": (causal, torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0]])),
}


@pytest.mark.parametrize("name", MIXED)
def test_documents_that_see_one_another_are_counted(name: str, tmp_path: Path) -> None:
    assert mixed(tmp_path / "run", *MIXED[name]) == MOST_CALLS


@pytest.mark.parametrize("name", APART)
def test_documents_apart_and_whole_rows_are_not(name: str, tmp_path: Path) -> None:
    assert mixed(tmp_path / "run", *APART[name]) == 0


@pytest.mark.parametrize(
    ("positions", "documents"),
    [
        (PACKED, [[0] * 4 + [1] * 4 + [2] * 4]),
        (torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]), [[0, 0, 0, 1, 1], [0] * 5]),
        (WHOLE, None),
        (torch.tensor([[1, 1, 1, 0, 1, 2]]), None),
        (torch.tensor([0, 1, 0, 1]), None),
        (torch.zeros(3, 1, 12).long(), None),
        (torch.tensor([[0.0, 1.0, 0.0, 1.0]]), None),
        (torch.empty(1, 12, dtype=torch.long, device="meta"), None),
        (torch.zeros(0, 12).long(), None),
    ],
)
def test_documents_begin_where_positions_do(positions: torch.Tensor, documents: list[list[int]] | None) -> None:
    found = documents_of(positions)
    assert (None if found is None else found.tolist()) == documents
