"""The attention of a step, from the graph of its loss: its largest logit, its entropy, and its sight of what follows.

The inputs of `scaled_dot_product_attention` (MultiheadAttention calls it), and of attention by hand (a product, a
softmax), are kept by their nodes for the backward pass. A few rows of them are multiplied again. Nothing is wrapped, so
a model may have taken these functions by any name.

What a program unpacks by a hook of its own (checkpointing of activations, offloading) would be computed once more, so
it is not read; a PyTorch that does not show such hooks has no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.description import constant_factor

MOST_NODES = 20_000  # of the graph
MOST_LAYERS = 8  # that are read, spread over the depth of the model
_SAMPLES, _HEADS, _QUERIES, _KEYS = 2, 8, 16, 4096  # that are read of each
_MOST_PACKED = 1 << 14  # keys of rows of several documents, of which few are read
_FUSED = "ScaledDotProduct"
_SOFTMAX = {"SoftmaxBackward0", "SafeSoftmaxBackward0"}
_LONGEST_WALK = 12
_SAME = 1e-2  # shares of attention computed again
_UNMASKED = 1e-30  # a share of attention: what is masked by a large number has less
_BEFORE_SOFTMAX = {  # from the softmax to the product of queries and keys
    "MulBackward0", "DivBackward0", "AddBackward0", "SubBackward0", "MaskedFillBackward0", "WhereBackward0",
    "ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ToCopyBackward0", "SqueezeBackward0",
    "SqueezeBackward1", "UnsqueezeBackward0", "CloneBackward0", "AliasBackward0", "PermuteBackward0",
}  # fmt: skip
_PRODUCTS = {"BmmBackward0": ("self", "mat2"), "BaddbmmBackward0": ("batch1", "batch2")}


class AttentionNumbers(NamedTuple):
    """Numbers of the sampled rows of all sampled layers, one element each.

    - `largest_logit`: the largest absolute logit that is not masked
    - `entropy`: of the layer with the least, the mean entropy of its rows over that of even attention: 0 to 1
    - `ahead`: of the layer with the most, the share of its rows that the next place is not masked for: 0 to 1; 0 for
      attention to another sequence
    """

    largest_logit: torch.Tensor
    entropy: torch.Tensor
    ahead: torch.Tensor


class _Read(NamedTuple):
    """The rows of attention that are read of one layer, which end with queries and keys.

    - `logits`, `shares`: before and after the softmax
    - `allowed`: True where the query sees the key
    - `matrices`: of each that is read its place among those of the layer, samples before heads
    - `places`: of the queries
    - `shape`: of all that the layer has: matrices, queries, keys
    - `ahead`: the share of the rows that the next place is not masked for
    """

    logits: torch.Tensor
    shares: torch.Tensor
    allowed: torch.Tensor
    matrices: list[int]
    places: list[int]
    shape: tuple[int, int, int]
    ahead: torch.Tensor


def attention_nodes(end: Any, *, kinds: Collection[str] = ()) -> list[Any]:
    """Return the nodes of attention in the graph of a loss, those of the last layers first; [] in a larger graph.

    Args:
        end: The last node.
        kinds: Names of nodes to be returned in their place.
    """
    found, seen, waiting = [], {end}, [end]
    while waiting:
        further = []
        for node in waiting:
            kind = node.name()
            if kind in kinds if kinds else kind.startswith(_FUSED) or kind in _SOFTMAX:
                found.append(node)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    further.append(following)
        if len(seen) > MOST_NODES:
            return []
        waiting = further
    return found


def numbers_of(nodes: Sequence[Any]) -> AttentionNumbers | None:
    """Return the numbers of attention by these nodes; None if none of them keeps what is needed.

    Errors: `RuntimeError` if the script has written over values that a node keeps.
    """
    logits, entropies, aheads = [], [], []
    every = max(1, -(-len(nodes) // MOST_LAYERS))
    with torch.no_grad():
        for node in nodes[::every]:
            found = _read(node)
            if found is not None:
                logits.append(_largest(found.logits, found.allowed))
                entropies.append(_entropy(found.shares, found.allowed))
                aheads.append(found.ahead)
        if not logits:
            return None
        device = logits[0].device  # a model may lie on several
        stacked = [torch.stack([n.to(device) for n in numbers]) for numbers in (logits, entropies, aheads)]
        return AttentionNumbers(stacked[0].max(), stacked[1].min(), stacked[2].max())


def see_across(nodes: Sequence[Any], documents: torch.Tensor) -> bool | None:
    """Return True if a place sees one of another document of its row, in any layer that is read.

    None if no row that is read has two documents, or no layer says which places it sees.

    Args:
        nodes: The attention in the graph of what a model returned.
        documents: The number of the document at each place: (rows, places).

    Errors: `RuntimeError` as above.
    """
    answer = None
    rows, length = documents.shape
    for node in nodes[:: max(1, -(-len(nodes) // MOST_LAYERS))]:
        found = _read(node, most_keys=_MOST_PACKED)
        if found is None or found.shape[0] % rows or found.shape[1:] != (length, length):
            continue
        own = documents.to(found.allowed.device)[[matrix * rows // found.shape[0] for matrix in found.matrices]]
        differ = own[:, found.places, None] != own[:, None, :]
        if bool(differ.any()):
            answer = bool((differ & found.allowed.flatten(0, -3)).any())
            if answer:
                return True
    return answer


def kept(node: Any, name: str) -> torch.Tensor | None:
    """Return a tensor that a node keeps; None for one that a hook of the program unpacks, or with freed memory."""
    saved = getattr(node, f"_raw_saved_{name}", None)
    if saved is None or getattr(saved, "unpack_hook", node) is not None:  # a node stands for: it is not known
        return None
    value: torch.Tensor | None = getattr(node, f"_saved_{name}")
    return value if value is None or has_memory(value) else None


def _read(node: Any, most_keys: int = _KEYS) -> _Read | None:
    """Return rows of a layer of attention; None where its node does not keep them, or has more keys."""
    return _fused(node, most_keys) if node.name().startswith(_FUSED) else _by_hand(node, most_keys)


def _fused(node: Any, most_keys: int) -> _Read | None:
    query, key = kept(node, "query"), kept(node, "key")
    if query is None or key is None or query.dim() != 4 or key.dim() != 4 or key.shape[2] > most_keys:
        return None
    mask = kept(node, "attn_mask")
    mask = kept(node, "attn_bias") if mask is None else mask
    samples, heads, places = _chosen(query.shape)
    scale = getattr(node, "_saved_scale", None)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    key_heads = [head * key.shape[1] // query.shape[1] for head in heads]  # fewer, where queries share them
    rows = query.detach()[samples][:, heads][:, :, places].float()
    keys = key.detach()[samples][:, key_heads].float()
    logits = scale * rows @ keys.transpose(-1, -2)
    if mask is not None:
        mask = mask.detach().expand(*query.shape[:3], key.shape[2])[samples][:, heads][:, :, places]
        logits = logits.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else logits + mask
    if getattr(node, "_saved_is_causal", False):
        later = torch.arange(key.shape[2]) > torch.tensor(places)[:, None]
        logits = logits.masked_fill(later.to(logits.device), -math.inf)
    allowed = logits > torch.finfo(logits.dtype).min / 2
    matrices = [sample * query.shape[1] + head for sample in samples for head in heads]
    shape = (query.shape[0] * query.shape[1], query.shape[2], key.shape[2])
    ahead = _ahead(allowed, places, is_own=shape[1] == shape[2])
    return _Read(logits, logits.softmax(-1), allowed, matrices, places, shape, ahead)


def _by_hand(node: Any, most_keys: int) -> _Read | None:
    """Return the rows of a softmax over a product of two batches of matrices; None for any other softmax."""
    product, scale, is_permuted = _product(node)
    if product is None:
        return None
    shares = kept(node, "result")
    names = _PRODUCTS[product.name()]
    query, key = kept(product, names[0]), kept(product, names[1])
    if (
        shares is None
        or query is None
        or key is None
        or shares.dim() not in {3, 4}
        or query.dim() != 3
        or key.shape[-1] > most_keys
    ):
        return None
    shares = shares.detach().reshape(-1, *shares.shape[-2:])
    if shares.shape != (query.shape[0], query.shape[1], key.shape[2]):
        return None
    _, batch, places = _chosen((1, *query.shape))
    shares = shares[batch][:, places].float()
    logits = scale * query.detach()[batch][:, places].float() @ key.detach()[batch].float()
    allowed = shares > 0
    if is_permuted:  # as by `einsum`: perhaps the rows are others
        again = logits.masked_fill(~allowed, -math.inf).softmax(-1)
        if not torch.allclose(again, shares, atol=_SAME):
            return None
    shape = (query.shape[0], query.shape[1], key.shape[2])
    ahead = _ahead(shares > _UNMASKED, places, is_own=shape[1] == shape[2] and not is_permuted)
    return _Read(logits, shares, allowed, batch, places, shape, ahead)


def _product(softmax: Any) -> tuple[Any, float, bool]:
    """Return the node of the product of queries and keys before a softmax (None without one), the factor between, and
    True if axes change places between."""
    node, scale, is_permuted = softmax, 1.0, False
    for _ in range(_LONGEST_WALK):
        inputs = [following for following, _ in node.next_functions if following is not None]
        if not inputs or (len(inputs) > 1 and node.name() != "AddBackward0"):
            break
        node = inputs[0]  # a bias of positions is added to it
        kind = node.name()
        if kind in _PRODUCTS:
            return node, scale, is_permuted
        if kind not in _BEFORE_SOFTMAX:
            break
        is_permuted = is_permuted or kind == "PermuteBackward0"
        if kind in {"MulBackward0", "DivBackward0"}:
            factor = constant_factor(kind, node)
            if factor is None or isinstance(factor.value, torch.Tensor):
                break
            scale = scale / factor.value if factor.is_divisor else scale * factor.value
    return None, scale, is_permuted


def _chosen(shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the samples, heads and places that are read, evenly spread; the last place among them."""
    samples, heads, places = shape[:3]
    return _spread(samples, _SAMPLES), _spread(heads, _HEADS), _spread(places, _QUERIES)


def _spread(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round((number + 1) * count / most) - 1 for number in range(most)})


def _largest(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return logits.abs().masked_fill(~allowed, 0.0).max()


def _ahead(allowed: torch.Tensor, places: Sequence[int], *, is_own: bool) -> torch.Tensor:
    """Return the share of the rows that may see the next place. `allowed`: shape (..., places, keys)."""
    rows = [row for row, place in enumerate(places) if place + 1 < allowed.shape[-1]]
    if not rows or not is_own:
        return torch.zeros((), device=allowed.device)
    return torch.stack([allowed[..., row, places[row] + 1].float().mean() for row in rows]).mean()


def _entropy(shares: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the mean over the rows with a choice of their entropy over the logarithm of the number of keys."""
    counts = allowed.sum(-1)
    entropies = -torch.special.xlogy(shares, shares).nan_to_num().sum(-1)
    relative = entropies / counts.clamp(min=2).float().log()
    has_choice = counts > 1
    return torch.where(has_choice, relative, 0.0).sum() / has_choice.sum().clamp(min=1)
