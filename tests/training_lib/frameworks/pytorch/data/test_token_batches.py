"""Tokens and labels of batches, for models with the names and configurations that transformers gives them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trackside.contracts.run.recorded_names import (
    DOUBLE_BEGINS,
    LABELLED_ENDS,
    LABELLED_PADDING,
    LABELLED_PROMPTS,
    LABELLED_TOKENS,
    LONGER_CHOSEN,
    ROWS_CUT,
    UNLABELLED_ROWS,
    UNTRAINED_TOKENS,
)
from trackside.frameworks.pytorch.data.token_batches import LOOK_INTERVAL, LOOKS_AT_FIRST, TokenBatches

PAD, END, BEGIN, NONE = 0, 1, 2, -100


class TinyForCausalLM(nn.Module):
    """A model with the parts that are looked at."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(**{"eos_token_id": END, "bos_token_id": BEGIN, "pad_token_id": PAD, **config})
        self.embedding = nn.Embedding(32, 64)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding


class Encoder(TinyForCausalLM):
    """A model of another kind."""


def numbers(batch: Any, model: nn.Module | None = None) -> dict[str, float]:
    added: dict[tuple[str, str], Any] = {}
    TokenBatches(lambda: [("Net", model or TinyForCausalLM())]).look(batch, added)
    return {name: value for (name, _), value in added.items()}


def batch(tokens: list[list[int]], labels: list[list[int]], *, masked: bool = True) -> dict[str, torch.Tensor]:
    ids = torch.tensor(tokens)
    mask = {"attention_mask": (ids != PAD).long()} if masked else {}
    return {"input_ids": ids, "labels": torch.tensor(labels), **mask}


ROW, ROW_LABELS = [5, 6, 7, 8, END, PAD], [NONE, NONE, 7, 8, END, NONE]
TABLE = {
    "a masked prompt": (
        batch([ROW] * 2, [ROW_LABELS] * 2),
        {LABELLED_TOKENS: 0.6, LABELLED_PADDING: 0.0, LABELLED_ENDS: 1.0, DOUBLE_BEGINS: 0.0},
    ),
    "no mask of attention": (batch([ROW], [ROW_LABELS], masked=False), {LABELLED_TOKENS: 0.6, LABELLED_PADDING: 0.0}),
    "labels on padding": (batch([ROW], [[5, 6, 7, 8, END, PAD]]), {LABELLED_PADDING: 1.0, LABELLED_TOKENS: 1.0}),
    "shifted by the loop": (batch([ROW], [[NONE, 7, 8, END, NONE, NONE]]), {LABELLED_ENDS: 1.0, LABELLED_TOKENS: 0.6}),
    "no end": (batch([ROW], [[NONE, NONE, 7, 8, NONE, NONE]]), {LABELLED_ENDS: 0.0}),
    "the whole text": (batch([ROW], [[5, 6, 7, 8, END, NONE]]), {LABELLED_PROMPTS: 1.0, UNLABELLED_ROWS: 0.0}),
    "a begin without a label": (batch([[BEGIN, 6, END]], [[NONE, 6, END]]), {LABELLED_PROMPTS: 1.0}),
    "a row without a label": (batch([ROW] * 2, [ROW_LABELS, [NONE] * 6]), {LABELLED_PROMPTS: 0, UNLABELLED_ROWS: 0.5}),
    "one of two rows cut off": (batch([ROW, [5, 6, 7, 8, 9, 9]], [ROW_LABELS, [NONE, 6, 7, 8, 9, 9]]), {ROWS_CUT: 0.5}),
    "an end before a line feed": (batch([[5, 6, 7, END, 9]], [[NONE, 6, 7, END, 9]]), {ROWS_CUT: 0.0}),
    "two begins, padding on the left": (
        batch([[PAD, BEGIN, BEGIN, 5], [BEGIN, BEGIN, 6, 7]], [[NONE] * 4] * 2),
        {DOUBLE_BEGINS: 1.0, LABELLED_TOKENS: 0.0},
    ),
}
NOTHING = {
    "no labels": {"input_ids": torch.tensor([ROW])},
    "labels of rows": {"input_ids": torch.tensor([ROW]), "labels": torch.tensor([1])},
    "labels of another length": {"input_ids": torch.tensor([ROW]), "labels": torch.tensor([[1, 2]])},
    "lists": {"input_ids": [ROW], "labels": [ROW_LABELS]},
    "a tuple": (torch.tensor([ROW]), torch.tensor([ROW_LABELS])),
    "no tokens": {"input_ids": torch.zeros(0, 4).long(), "labels": torch.zeros(0, 4).long()},
}


@pytest.mark.parametrize("name", TABLE)
def test_the_numbers_of_a_batch(name: str) -> None:
    given, expected = TABLE[name]
    found = numbers(given)
    assert {key: pytest.approx(found[key]) for key in expected} == expected


@pytest.mark.parametrize("name", NOTHING)
def test_other_batches_have_none(name: str) -> None:
    assert numbers(NOTHING[name]) == {}


def test_other_models_have_none() -> None:
    assert numbers(batch([ROW], [ROW_LABELS]), Encoder()) == {}


def test_the_newest_tokens_are_kept_for_the_loss() -> None:
    looks, rows = TokenBatches(lambda: [("Net", TinyForCausalLM())]), torch.tensor([ROW])
    batches: tuple[Any, ...] = (
        {"input_ids": rows},
        (rows, rows),
        rows,
        {"input_ids": rows.float()},
        rows[0],
        "text",
        [],
    )
    for given in batches:
        looks.look(given, {})
    assert [tokens is rows for tokens in looks.newest()] == [True] * 3
    others = TokenBatches(lambda: [("Net", Encoder())])
    others.look(rows, {})
    assert others.newest() == ()


def test_a_model_without_special_tokens_has_the_rest() -> None:
    plain = TinyForCausalLM(eos_token_id=None, bos_token_id=None, pad_token_id=None)
    assert set(numbers(batch([ROW], [ROW_LABELS]), plain)) == {
        LABELLED_TOKENS,
        LABELLED_PADDING,
        LABELLED_PROMPTS,
        UNLABELLED_ROWS,
    }


def test_frozen_embeddings_of_added_tokens_are_counted() -> None:
    model = TinyForCausalLM()
    with torch.no_grad():
        model.embedding.weight[30:] = model.embedding.weight[:30].mean(0)
    given = batch([[5, 30, 31, 8, END]], [[5, 30, 31, 8, END]])
    assert UNTRAINED_TOKENS not in numbers(given, model)
    model.embedding.requires_grad_(requires_grad=False)
    assert numbers(given, model)[UNTRAINED_TOKENS] == 2
    assert numbers(batch([ROW], [ROW_LABELS]), model)[UNTRAINED_TOKENS] == 0


def test_looks_become_rare() -> None:
    looks, given = TokenBatches(lambda: [("Net", TinyForCausalLM())]), batch([ROW], [ROW_LABELS])
    count = 0
    for _ in range(LOOKS_AT_FIRST + 2 * LOOK_INTERVAL):
        added: dict[tuple[str, str], Any] = {}
        looks.look(given, added)
        count += bool(added)
    assert LOOKS_AT_FIRST < count <= LOOKS_AT_FIRST + 3


def test_blocks_of_a_stream_are_not_cut_off() -> None:
    assert ROWS_CUT not in numbers(batch([[5, 6, 7, 8]] * 2, [[5, 6, 7, 8]] * 2))


def test_a_row_shorter_than_those_before_is_not_cut_off() -> None:
    looks, added = TokenBatches(lambda: [("Net", TinyForCausalLM())]), dict[tuple[str, str], Any]()
    for row in ([5, 6, 7, 8, 9], [5, 6, 7, 8]):
        looks.look(batch([row], [[NONE, *row[1:]]]), added)
    assert added[ROWS_CUT, "mean"] == 0


def test_pairs_of_answers_have_lengths() -> None:
    pairs = {
        "input_ids": torch.tensor([[5, 6, 7], [5, 6, PAD]]),
        "completion_mask": torch.tensor([[0, 1, 1], [0, 1, 0]]),
    }
    assert numbers(pairs)[LONGER_CHOSEN] == 1
    assert numbers(pairs, Encoder()) == {}
