"""Masks of keys that leave padding alone; none where they leave tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.inverted_mask import MOST_LOOKS, InvertedMasks

PADDING = 0
TABLE = nn.Embedding(9, 8)
LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
TOKENS = torch.tensor([[1, 5, 3, 2, 0, 0], [1, 2, 6, 0, 0, 0], [1, 8, 4, 7, 3, 0]])
WHOLE = torch.tensor([[1, 5, 3], [1, 2, 6]])
Mask = Callable[[Tensor], Tensor]


@pytest.mark.parametrize(
    ("tokens", "mask", "is_inverted"),
    [
        pytest.param(TOKENS, lambda t: t != PADDING, True, id="upside-down"),
        pytest.param(TOKENS.flip(1), lambda t: t != PADDING, True, id="padded-on-the-left"),
        pytest.param(
            TOKENS, lambda t: torch.zeros(t.shape).masked_fill(t != PADDING, float("-inf")), True, id="to-be-added"
        ),
        pytest.param(TOKENS, lambda t: t == PADDING, False, id="as-it-is-meant"),
        pytest.param(TOKENS.flip(1), lambda t: t == PADDING, False, id="so-on-the-left"),
        pytest.param(WHOLE, lambda t: t == PADDING, False, id="nothing-covered"),
        pytest.param(WHOLE, lambda t: t != PADDING, False, id="everything-covered"),
        pytest.param(TOKENS, lambda t: torch.rand(t.shape) < 0.3, False, id="at-random"),
        pytest.param(TOKENS, lambda t: t != 1, False, id="the-first-alone-beside-padding"),
    ],
)
@pytest.mark.parametrize("layer", [LAYER, LAYER.self_attn, nn.TransformerEncoder(LAYER, 1)])
def test_masks(tokens: Tensor, mask: Mask, is_inverted: bool, layer: nn.Module) -> None:
    torch.manual_seed(0)
    seen, values, given = InvertedMasks(Watch()), TABLE(tokens), mask(tokens)
    for _ in range(MOST_LOOKS + 2):
        seen.outermost_called(TABLE)
        seen.called(TABLE, (tokens,), {})
        if isinstance(layer, nn.MultiheadAttention):
            seen.called(layer, (values, values, values), {"key_padding_mask": given})
        else:
            seen.called(layer, (values,), {"src_key_padding_mask": given})
        seen.called(LAYER.self_attn, (values, values, values, given), {})  # within the first
    assert seen.of(layer) == (MOST_LOOKS if is_inverted else 0)
