"""Trainings as people write them first: loops by hand on models of transformers, and trainers of TRL by their pages."""

# ruff: noqa: E501, S311, S105 - tables; data are drawn, and tokens are no passwords

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.language.case import TUNE, Case
from benchmarks.language.trainers import COMMON, NUMBERS, model, pairs, rows, tokenizer

NONE = -100


def rows_of_tokens(seed: int, words: Any) -> list[tuple[list[int], list[int]]]:
    """Return prompts and answers with an end, as tokens."""
    return [
        (words(f"<user> {prompt} <bot>")["input_ids"], words(f"{answer} <eos>")["input_ids"])
        for prompt, answer in pairs(seed)
    ]


def adapted(net: Any, adapter: str, *, head: bool) -> Any:
    """Return the model with an adapter: "" for none, "trained", or "frozen" by mistake."""
    if not adapter:
        return net
    from peft import LoraConfig, get_peft_model

    net = get_peft_model(net, LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["q_proj", "v_proj"]))
    for name, parameter in net.named_parameters():
        if "lora" in name and adapter == "frozen":
            parameter.requires_grad_(requires_grad=False)
        if "lm_head" in name and head:
            parameter.requires_grad_(requires_grad=True)
    return net


def by_hand(seed: int, *, collator_shifts: bool = True, loop_shifts: bool = False, adapter: str = "", accumulate: int = 1,
            divides: bool = True, head: bool = False, saves: bool = False, steps: int = 60) -> None:  # fmt: skip
    """Fine-tune in a loop by hand, with its own cross entropy.

    Args:
        seed: The seed.
        collator_shifts: Labels are shifted by the collator.
        loop_shifts: The loop shifts them.
        adapter: "": all weights are trained; "trained": those of a LoRA; "frozen": the LoRA is frozen by mistake.
        accumulate: Batches of a step.
        divides: The loss of each is divided by their number.
        head: The scores' layer is trained, too.
        saves: The adapter is saved at the end.
        steps: Steps of the optimizer.
    """
    import torch
    from torch.nn import functional
    from torch.utils.data import DataLoader

    words, net = tokenizer(), adapted(model(seed), adapter, head=head)

    def collate(batch: list[Any]) -> dict[str, Any]:
        width = max(len(prompt) + len(answer) for prompt, answer in batch)
        tokens, labels = [], []
        for prompt, answer in batch:
            gap = width - len(prompt) - len(answer)
            wanted = [*[NONE] * len(prompt), *answer, *[NONE] * gap]
            tokens.append([*prompt, *answer, *[words.pad_token_id] * gap])
            labels.append([*wanted[1:], NONE] if collator_shifts else wanted)
        ids = torch.tensor(tokens)
        return {"input_ids": ids, "labels": torch.tensor(labels), "attention_mask": (ids != 0).long()}

    rows: Any = rows_of_tokens(seed, words)
    loader: DataLoader[Any] = DataLoader(rows, batch_size=16, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    done = 0
    while done < steps * accumulate:
        for batch in loader:
            scores = net(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            labels = batch["labels"]
            if loop_shifts:
                scores, labels = scores[:, :-1], labels[:, 1:]
            loss = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))
            (loss / accumulate if divides else loss).backward()
            done += 1
            if done % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            if done == steps * accumulate:
                break
    if saves:
        net.save_pretrained("out")


def blocks(seed: int, *, masked: bool = False) -> None:
    """Train on blocks cut from a stream of texts, as `run_clm` does."""
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    words, net = tokenizer(), model(seed)
    stream = [token for prompt, answer in rows_of_tokens(seed, words) for token in (*prompt, *answer)]
    data = [{"input_ids": stream[k : k + 24]} for k in range(0, len(stream) - 24, 24)]
    arguments = TrainingArguments(
        "out", max_steps=60, per_device_train_batch_size=8, learning_rate=3e-3, seed=seed, **COMMON
    )
    collator = DataCollatorForLanguageModeling(words, mlm=False)
    Trainer(model=net, args=arguments, train_dataset=data, data_collator=collator).train()


def taught(seed: int, steps: int) -> tuple[Any, Any]:
    """Return a tokenizer, and a model that has learned to answer a little, in calls that no run belongs to."""
    import torch
    from torch.nn import functional

    words, net = tokenizer(), model(seed)
    drawn = random.Random(seed)
    data = [
        words(f"n{k} <bot> n{(k + 1) % NUMBERS} <eos>")["input_ids"]
        for k in (drawn.randrange(NUMBERS) for _ in range(64 * steps))
    ]
    for step in range(steps):
        tokens = torch.tensor(data[64 * step : 64 * (step + 1)])
        scores = net(tokens[:, :-1]).logits[:, 1:]
        loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 2:].flatten())
        found = torch.autograd.grad(loss, [p for p in net.parameters() if p.requires_grad], allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), found, strict=True):
                if gradient is not None:
                    parameter.sub_(1.0 * gradient)
    return words, net


def next_number(prompts: list[str], completions: list[str]) -> list[float]:
    """Return 1 for each answer that is the number after that of its prompt, alone."""
    wanted = [f"n{(int(prompt.split()[0][1:]) + 1) % NUMBERS}" for prompt in prompts]
    return [float(text.split()[:1] == [one]) for text, one in zip(completions, wanted, strict=True)]


def rewarded(seed: int, *, teach: int = 40, trainer: str = "GRPO", sign: float = 1.0, judge: str = "next", parts: bool = False,
             end: bool = True, **settings: Any) -> None:  # fmt: skip
    """Train by TRL's GRPO or RLOO on a task that the model can nearly do.

    Args:
        seed: The seed.
        teach: Supervised steps before.
        trainer: "GRPO" or "RLOO".
        sign: -1: the loss is turned around.
        judge: "next": the right number; "late": none is right until the third; "wrong way": wrong answers get more.
        parts: A second reward for the form.
        end: False: the sampler knows another end token than the model was taught.
        **settings: Further arguments.
    """
    import trl

    words, net = taught(seed, teach)
    if not end:
        net.generation_config.eos_token_id = 3
        words.eos_token = "<unk>"
    drawn = random.Random(seed)

    def right(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        found = next_number(prompts, completions)
        return [1 - one for one in found] if judge == "wrong way" else found

    def rare(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [
            one if prompt.split()[0] in ("n1", "n2") else 0.0
            for one, prompt in zip(next_number(prompts, completions), prompts, strict=True)
        ]

    def short(completions: list[str], **_: Any) -> list[float]:
        return [float(len(text.split()) < 3) for text in completions]

    kind, config = getattr(trl, f"{trainer}Trainer"), getattr(trl, f"{trainer}Config")
    if sign < 0:

        class Turned(kind):  # type: ignore[misc,valid-type]
            def compute_loss(self, *arguments: Any, **named: Any) -> Any:
                return -super().compute_loss(*arguments, **named)

        kind = Turned
    given = {"learning_rate": 1e-3, "max_steps": 60, "per_device_train_batch_size": 32, "num_generations": 8}
    given |= {"max_completion_length": 6, "seed": seed, "beta": 0.0}
    arguments = config("out", **{**given, **COMMON, **settings})
    data = rows(prompt=[f"n{drawn.randrange(NUMBERS)} <bot>" for _ in range(256)])
    rewards: list[Callable[..., list[float]]] = [rare if judge == "rare" else right, *([short] if parts else [])]
    kind(net, reward_funcs=rewards, args=arguments, train_dataset=data, processing_class=words).train()


def hidden_nan(seed: int) -> None:
    """Fine-tune by `Trainer` on rows of which a few have no label: the mean over nothing is NaN, and the log hides it."""
    import torch
    from transformers import Trainer, TrainingArguments

    words, net = tokenizer(), model(seed)
    found = rows_of_tokens(seed, words)

    def collate(batch: list[Any]) -> dict[str, Any]:
        (prompt, answer), *_ = batch
        labels = [NONE] * len(prompt) + (answer if len(prompt) < 6 else [NONE] * len(answer))
        return {"input_ids": torch.tensor([[*prompt, *answer]]), "labels": torch.tensor([labels])}

    settings = {**COMMON, "logging_steps": 10}
    arguments = TrainingArguments(
        "out",
        max_steps=60,
        per_device_train_batch_size=1,
        learning_rate=1e-3,
        seed=seed,
        remove_unused_columns=False,
        **settings,
    )
    Trainer(model=net, args=arguments, train_dataset=found, data_collator=collate).train()


PLANTED: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("nobody-shifts", partial(by_hand, collator_shifts=False), ("label-mask",)),
    ("loop-and-collator-shift", partial(by_hand, loop_shifts=True), ("label-mask",)),
    ("adapter-frozen", partial(by_hand, adapter="frozen", head=True), ("parameters-not-in-optimizer", "frozen-parameters", "parameters-frozen")),
    ("head-not-saved", partial(by_hand, adapter="trained", head=True, saves=True), ("incomplete-checkpoint",)),
    ("sign-turned", partial(rewarded, sign=-1.0, teach=150, learning_rate=3e-3, per_device_train_batch_size=64), ("loss-sign",)),
    ("no-end-token", partial(rewarded, end=False, judge="next"), ("unended-answers",)),
    ("rate-far-too-high", partial(rewarded, learning_rate=3e-1), ("learning-rate-too-high", "entropy-collapse")),
    ("rows-without-labels", hidden_nan, ("label-mask", "hidden-loss", "non-finite-data", "undefined-value")),
)  # fmt: skip

SOUND: tuple[tuple[str, Any], ...] = (
    ("collator-shifts", by_hand),
    ("loop-shifts", partial(by_hand, collator_shifts=False, loop_shifts=True)),
    ("adapter-by-hand", partial(by_hand, adapter="trained", saves=True)),
    ("accumulated-by-hand", partial(by_hand, accumulate=4)),
    ("blocks", blocks),
    ("solved", partial(rewarded, teach=400, learning_rate=1e-4)),
    ("rare-rewards", partial(rewarded, judge="rare", teach=60)),
    ("two-rewards", partial(rewarded, parts=True)),
    ("rloo", partial(rewarded, trainer="RLOO")),
)  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Return all programs of this file."""
    planted = [Case(f"script-{name}", TUNE, train, causes, "trl") for name, train, causes in PLANTED]
    return (*planted, *[Case(f"script-{name}", TUNE, train, needs="trl") for name, train in SOUND])
