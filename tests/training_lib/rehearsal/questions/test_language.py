"""Probes of supervised batches, adapters and accumulated steps of language models: with a fault, and without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.frameworks.pytorch.facts.detectors.program.test_adapters import Layer
from tests.training_lib.rehearsal.rehearsing import answer, recording
from trackside.contracts.run.check import Answer, Outcome
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.subject import Subject

PROBES = {probe.name: probe for probe in all_probes()}
LABELS, ADAPTERS, TOKENS = (
    PROBES[name] for name in ("labels-cover-answers", "adapters-are-trained", "tokens-count-alike")
)
PAD, END, BEGIN, NONE = 0, 1, 2, -100
Rows = list[tuple[list[int], list[int]]]  # tokens and labels


class TinyForCausalLM(nn.Module):
    """A model that shifts labels itself, as those of transformers."""

    def __init__(self, *adapters: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(eos_token_id=END, bos_token_id=BEGIN, pad_token_id=PAD)
        self.embedding, self.head = nn.Embedding(16, 4), nn.Linear(4, 16)
        self.adapters = nn.ModuleList(adapters)

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor, attention_mask: torch.Tensor, count: int = 0
    ) -> torch.Tensor:
        hidden = self.embedding(input_ids)
        for each in self.adapters:
            hidden = hidden + each.lora_B["default"](each.lora_A["default"](hidden))  # type: ignore[index,operator] # dicts
        scores, wanted = self.head(hidden)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = functional.cross_entropy(scores, wanted, reduction="sum" if count else "mean")
        return loss / count if count else loss


def rehearsed(*batches: Rows, model: nn.Module | None = None, count: int = 0, frozen: str = "-") -> Subject:
    """Train three steps, each of all these batches."""
    net = model or TinyForCausalLM()
    held = [p for name, p in net.named_parameters() if frozen not in name]
    optimizer = torch.optim.SGD(held, lr=1e-2)
    with recording() as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            for rows in batches:
                tokens, labels = (torch.tensor(part) for part in zip(*rows, strict=True))
                mask = (tokens != PAD).long()
                loss = net(input_ids=tokens, labels=labels, attention_mask=mask, count=count)
                (loss if count else loss / len(batches)).backward()
            optimizer.step()
            recorder.stepped(optimizer)
    return Subject(
        recorder.programs,
        first_values={},
        time_left=lambda: 60.0,
        changes=recorder.gradients.changes,
        labels=recorder.labels,
        draws=recorder.draws,
    )


TEXT, MASKED = [BEGIN, 6, 7, 8, END, PAD], [NONE, NONE, 7, 8, END, NONE]
GOOD: Rows = [(TEXT, MASKED)] * 4
BATCHES: dict[str, tuple[Rows, Outcome]] = {
    "prompts masked": (GOOD, Outcome.OK),
    "the whole text": ([(TEXT, [*TEXT[:5], NONE])] * 4, Outcome.OK),
    "a row cut off": ([*GOOD, (TEXT, [NONE] * 6)], Outcome.OK),
    "blocks of a stream": ([([5, 6, 7, 8], [5, 6, 7, 8])] * 4, Outcome.OK),
    "labels on padding": ([(TEXT, TEXT)] * 4, Outcome.FAULT),
    "no end": ([(TEXT, [NONE, NONE, 7, 8, NONE, NONE])] * 4, Outcome.FAULT),
    "most rows without a label": ([GOOD[0], *[(TEXT, [NONE] * 6)] * 3], Outcome.FAULT),
    "two begins": ([([BEGIN, BEGIN, 7, 8, END, PAD], MASKED)] * 4, Outcome.FAULT),
}


@pytest.mark.parametrize("name", BATCHES)
def test_labels(name: str) -> None:
    rows, outcome = BATCHES[name]
    found = answer(rehearsed(rows), LABELS)
    assert found.outcome is outcome, found
    assert f"{len(rows)} rows" in found.observed


def adapted(layer: Layer, *, frozen: str = "base", **settings: Any) -> Answer:
    model = TinyForCausalLM(layer)
    vars(model)["peft_config"] = {"default": SimpleNamespace(inference_mode=False), **settings}
    return answer(rehearsed(GOOD, model=model, frozen=frozen), ADAPTERS)


LAYERS: dict[str, tuple[Layer, str, Outcome]] = {
    "as usual": (Layer("default"), "base", Outcome.OK),
    "a reference beside it": (Layer("default", "ref"), ".ref.", Outcome.OK),
    "not in the optimizer": (Layer("default"), "lora", Outcome.FAULT),
    "merged": (Layer("default", merged_adapters=["default"]), "base", Outcome.FAULT),
    "switched off": (Layer("default", _disable_adapters=True), "base", Outcome.FAULT),
    "another one is active": (Layer("default", "second", _active_adapter="second"), ".second.", Outcome.FAULT),
    "a scale of 256": (Layer("default", scaling={"default": 256.0}), "base", Outcome.FAULT),
    "no scale": (Layer("default", scaling={"default": 0.0}), "base", Outcome.FAULT),
}


@pytest.mark.parametrize("name", LAYERS)
def test_adapters(name: str) -> None:
    layer, frozen, outcome = LAYERS[name]
    assert adapted(layer, frozen=frozen).outcome is outcome


LONG: Rows = [([BEGIN, *range(3, 13), END], [NONE, *range(3, 13), END])]
SHORT: Rows = [([BEGIN, 6, END, *[PAD] * 9], [NONE, 6, END, *[NONE] * 9])]
STEPS: dict[str, tuple[tuple[Rows, ...], int, Outcome]] = {
    "means of short and long rows": ((SHORT, LONG), 0, Outcome.FAULT),
    "divided by all tokens": ((SHORT, LONG), 13, Outcome.OK),
    "rows of one length": ((LONG, LONG), 0, Outcome.OK),
    "one pass": ((LONG,), 0, Outcome.DOES_NOT_APPLY),
}


@pytest.mark.parametrize("name", STEPS)
def test_tokens_of_a_step(name: str) -> None:
    batches, count, outcome = STEPS[name]
    assert answer(rehearsed(*batches, count=count), TOKENS).outcome is outcome


@pytest.mark.parametrize("probe", [LABELS, ADAPTERS, TOKENS], ids=lambda probe: str(probe.name))
def test_other_programs_have_no_such_question(probe: Any) -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = TinyForCausalLM()

        def forward(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.inner(tokens, wanted, tokens)
            return out

    net, tokens = Plain(), torch.tensor([TEXT])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    with recording() as recorder:
        net(tokens, torch.tensor([MASKED])).backward()
        optimizer.step()
        recorder.stepped(optimizer)
    subject = Subject(recorder.programs, first_values={}, time_left=lambda: 60.0)
    assert answer(subject, probe).outcome is Outcome.DOES_NOT_APPLY
