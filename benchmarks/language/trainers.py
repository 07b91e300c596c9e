"""Trainings by the trainers of transformers, TRL and PEFT: a tiny model with random weights, a tokenizer of words."""

# ruff: noqa: E501, S311, S106 - tables; data are drawn, and tokens are no passwords

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.language.case import REPORT, TUNE, Case

NUMBERS = 24
WORDS = ["<pad>", "<eos>", "<bos>", "<unk>", "<user>", "<bot>", *[f"n{k}" for k in range(NUMBERS)]]
ROWS = 256
COMMON = {
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "logging_steps": 1,
}


def tokenizer(*, pad: str = "<pad>", more: tuple[str, ...] = ()) -> Any:
    """Return a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"pad_token": pad, "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    found = PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    if more:
        found.add_tokens(list(more))
    return found


def model(seed: int, *, layers: int = 2, words: int = len(WORDS)) -> Any:
    """Return a small causal language model with random weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=words,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=128,
            eos_token_id=1,
            pad_token_id=0,
            bos_token_id=2,
        )
    )


def pairs(seed: int, *, count: int = ROWS, longest: int = 6) -> list[tuple[str, str]]:
    """Return prompts, and answers that count on from the last number of the prompt."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        own = [draw.randrange(NUMBERS) for _ in range(draw.randint(2, 5))]
        after = [(own[-1] + k + 1) % NUMBERS for k in range(draw.randint(3, longest))]
        found.append((" ".join(f"n{k}" for k in own), " ".join(f"n{k}" for k in after)))
    return found


def rows(**columns: Any) -> Any:
    """Return a data set."""
    from datasets import Dataset

    return Dataset.from_dict(columns)


def supervised(
    seed: int,
    *,
    pad: str = "<pad>",
    end: str = " <eos>",
    mask: str = "prompt",
    padding: bool = False,
    shifted: bool = False,
    begin: str = "",
    equal: bool = False,
    right: bool = True,
    longest: int = 0,
    change: Callable[[Any], None] | None = None,
) -> None:
    """Fine-tune by `Trainer` with a collator by hand.

    Args:
        seed: The seed.
        pad: The token of padding.
        end: The end of each answer.
        mask: "prompt": prompts have no label; "none": all have; "all": no token has; "answer": answers have none.
        padding: Padding has labels.
        shifted: Labels are shifted by the collator already.
        begin: Tokens before each prompt.
        equal: All rows are equal.
        right: Padding is on the right.
        longest: Tokens of a row, the rest is cut off; 0 for all.
        change: Changes the model before the training.
    """
    import torch
    from transformers import Trainer, TrainingArguments

    words, net = tokenizer(pad=pad), model(seed)
    if change is not None:
        change(net)
    found = [
        {"prompt": words(f"{begin}<user> {p} <bot>")["input_ids"], "answer": words(a + end)["input_ids"]}
        for p, a in (pairs(seed, count=1) * ROWS if equal else pairs(seed))
    ]

    def collate(batch: list[Any]) -> dict[str, Any]:
        width = max(len(row["prompt"]) + len(row["answer"]) for row in batch)
        width = min(width, longest) if longest else width
        parts: dict[str, list[Any]] = {"input_ids": [], "attention_mask": [], "labels": []}
        for row in batch:
            tokens = [*row["prompt"], *row["answer"]][:width]
            labels = list(tokens)
            cut = len(row["prompt"])
            if mask in ("prompt", "all"):
                labels[:cut] = [-100] * cut
            if mask in ("answer", "all"):
                labels[cut:] = [-100] * len(labels[cut:])
            gap = width - len(tokens)
            fill = [words.pad_token_id] * gap
            blank = fill if padding else [-100] * gap
            if pad == "<eos>" and not padding:  # as a collator that masks the padding token wherever it stands
                labels = [-100 if token == words.pad_token_id else token for token in labels]
            if shifted:
                labels = [*labels[1:], -100]
            rows = {
                "input_ids": (tokens, fill),
                "attention_mask": ([1] * len(tokens), [0] * gap),
                "labels": (labels, blank),
            }
            for name, (own, filled) in rows.items():
                parts[name].append([*own, *filled] if right else [*filled, *own])
        return {name: torch.tensor(values) for name, values in parts.items()}

    arguments = TrainingArguments(
        "out",
        max_steps=40,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        seed=seed,
        remove_unused_columns=False,
        **COMMON,
    )
    Trainer(model=net, args=arguments, train_dataset=found, data_collator=collate).train()


def sft(seed: int, *, adapter: dict[str, Any] | None = None, more: tuple[str, ...] = (), whole: bool = False,
        text: bool = False, end: bool = True, **settings: Any) -> None:  # fmt: skip
    """Fine-tune by TRL's trainer.

    Args:
        seed: The seed.
        adapter: Arguments of a LoRA; None for all weights.
        more: Tokens that are added, and stand in each answer.
        whole: Train prompts too.
        text: Rows are texts, not prompts and answers.
        end: Texts have an end.
        **settings: Further arguments.
    """
    from trl import SFTConfig, SFTTrainer

    words, net = tokenizer(more=more), model(seed)
    if more:
        net.resize_token_embeddings(len(words))
    found = pairs(seed)
    tail = "".join(f" {one}" for one in more)
    if text:
        data = rows(text=[f"{p} <bot> {a}{tail}" for p, a in found])
    else:
        data = rows(prompt=[f"{p} <bot>" for p, _ in found], completion=[f" {a}{tail}" for _, a in found])
    if not end:
        words.add_eos_token = False
    given = {"learning_rate": 3e-3, "max_steps": 40, "per_device_train_batch_size": 16, "seed": seed, "max_length": 32}
    arguments = SFTConfig("out", completion_only_loss=None if text else not whole, **{**given, **COMMON, **settings})
    peft = None
    if adapter is not None:
        from peft import LoraConfig

        peft = LoraConfig(task_type="CAUSAL_LM", r=8, **adapter)
    trainer = SFTTrainer(net, args=arguments, train_dataset=data, processing_class=words, peft_config=peft)
    trainer.train()
    if adapter is not None:
        trainer.save_model("out")


def preferences(seed: int, *, swapped: bool = False, equal: bool = False, by_length: bool = False, far: bool = False,
                noisy: float = 0.0, **settings: Any) -> None:  # fmt: skip
    """Train by preferences with TRL's trainer.

    Args:
        seed: The seed.
        swapped: The worse answers are the chosen ones.
        equal: Both answers are the same.
        by_length: The longer answer is the chosen one, right or wrong.
        far: Both answers are unlike anything that the model says.
        noisy: Share of pairs the wrong way round.
        **settings: Further arguments.
    """
    from trl import DPOConfig, DPOTrainer

    words, net, draw = tokenizer(), model(seed), random.Random(seed)
    prompts, chosen, rejected = [], [], []
    for prompt, answer in pairs(seed):
        wrong = " ".join(f"n{draw.randrange(NUMBERS)}" for _ in answer.split())
        one, other = f" {answer}", f" {wrong}"
        if by_length:
            one, other = f" {wrong} {wrong}", f" {answer}"
        if equal:
            other = one
        if swapped or draw.random() < noisy:
            one, other = other, one
        prompts.append(f"{prompt} <bot>")
        chosen.append(one)
        rejected.append(other)
    given = {"learning_rate": 1e-3, "max_steps": 60, "per_device_train_batch_size": 16, "seed": seed, "beta": 0.1}
    arguments = DPOConfig("out", **{**given, **COMMON, **settings})
    data = rows(prompt=prompts, chosen=chosen, rejected=rejected)
    reference = copy.deepcopy(net)  # it would be loaded by the model's name
    DPOTrainer(net, reference, args=arguments, train_dataset=data, processing_class=words).train()


def rollouts(seed: int, *, judge: str = "right", adapter: bool = False, **settings: Any) -> None:
    """Train by GRPO with TRL's trainer.

    Args:
        seed: The seed.
        judge: "right" counts the wanted number, "all" and "none" give every answer the same, "length" likes long ones.
        adapter: Train a LoRA, whose model without it is the reference.
        **settings: Further arguments.
    """
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    words, net = tokenizer(), model(seed)

    def reward(completions: list[str], **_: Any) -> list[float]:
        found = []
        for text in completions:
            own = text.split()
            share = sum(one in ("n1", "n2", "n3") for one in own) / 8
            found.append({"right": share, "all": 1.0, "none": 0.0, "length": len(own) / 8}[judge])
        return found

    given = {"learning_rate": 3e-3, "max_steps": 40, "per_device_train_batch_size": 32, "num_generations": 8}
    given |= {"max_completion_length": 8, "seed": seed, "beta": 0.0}
    arguments = GRPOConfig("out", **{**given, **COMMON, **settings})
    data = rows(prompt=[prompt for prompt, _ in pairs(seed)])
    peft = LoraConfig(task_type="CAUSAL_LM", r=8, target_modules="all-linear") if adapter else None
    GRPOTrainer(net, reward, args=arguments, train_dataset=data, processing_class=words, peft_config=peft).train()


_LORA = {"target_modules": ["q_proj", "v_proj"]}

PLANTED: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
    ("padding-labelled", TUNE, partial(supervised, padding=True), ("label-mask",)),
    ("padding-labelled-left", REPORT, partial(supervised, padding=True, right=False), ("label-mask",)),
    ("end-masked", TUNE, partial(supervised, pad="<eos>"), ("label-mask",)),
    ("no-end", REPORT, partial(supervised, end=""), ("label-mask",)),
    ("no-labels", TUNE, partial(supervised, mask="all"), ("label-mask",)),
    ("answer-masked", REPORT, partial(supervised, mask="answer"), ("label-mask",)),
    ("labels-shifted-twice", TUNE, partial(supervised, shifted=True), ("label-mask",)),
    ("labels-shifted-twice-left", REPORT, partial(supervised, shifted=True, right=False), ("label-mask",)),
    ("two-begins", TUNE, partial(supervised, begin="<bos> <bos> "), ("label-mask", "double-begin")),
    ("answers-cut-off", REPORT, partial(supervised, longest=6), ("label-mask",)),
    ("equal-rows", TUNE, partial(supervised, equal=True), ("repeated-data", "constant-inputs")),
    ("new-tokens-frozen", TUNE, partial(sft, adapter=_LORA, more=("<tool>", "</tool>")), ("untrained-tokens",)),
    ("new-tokens-frozen-all-linear", REPORT, partial(sft, adapter={"target_modules": "all-linear"}, more=("<think>",)), ("untrained-tokens",)),
    ("swapped-preferences-high-rate", TUNE, partial(preferences, far=True, learning_rate=2e-2), ("preference-collapse", "learning-rate-too-high")),
    ("equal-preferences", REPORT, partial(preferences, equal=True), ("preference-collapse", "unrelated-reward", "uninformative-reward")),
    ("preferences-by-length", REPORT, partial(preferences, by_length=True, learning_rate=5e-3), ("preference-collapse", "length-bias")),
    ("preferences-too-far", REPORT, partial(preferences, learning_rate=1e-2, beta=0.01), ("preference-collapse",)),
    ("grpo-accepts-all", TUNE, partial(rollouts, judge="all", max_steps=30), ("uninformative-reward",)),
    ("grpo-accepts-none", REPORT, partial(rollouts, judge="none", max_steps=30), ("uninformative-reward",)),
    ("grpo-likes-length", TUNE, partial(rollouts, judge="length", max_steps=50), ("unended-answers",)),
)  # fmt: skip

SOUND: tuple[tuple[str, str, Any], ...] = (
    ("prompts-masked", TUNE, supervised),
    ("whole-text", REPORT, partial(supervised, mask="none")),
    ("padding-left", TUNE, partial(supervised, right=False)),
    ("one-begin", REPORT, partial(supervised, begin="<bos> ")),
    ("a-few-cut-off", TUNE, partial(supervised, longest=13)),
    ("sft", TUNE, sft),
    ("sft-whole", REPORT, partial(sft, whole=True)),
    ("sft-text", TUNE, partial(sft, text=True)),
    ("sft-packed", REPORT, partial(sft, text=True, packing=True, max_steps=20)),
    ("lora", TUNE, partial(sft, adapter=_LORA)),
    ("lora-all-linear", REPORT, partial(sft, adapter={"target_modules": "all-linear"})),
    ("lora-new-tokens-saved", TUNE, partial(sft, adapter={**_LORA, "modules_to_save": ["embed_tokens", "lm_head"]}, more=("<tool>",))),
    ("new-tokens-all-weights", REPORT, partial(sft, more=("<tool>", "</tool>"))),
    ("accumulated", REPORT, partial(sft, gradient_accumulation_steps=4, per_device_train_batch_size=4)),
    ("preferences", TUNE, preferences),
    ("preferences-noisy", REPORT, partial(preferences, noisy=0.2)),
    ("preferences-strong-beta", REPORT, partial(preferences, beta=0.5)),
    ("grpo", TUNE, rollouts),
    ("grpo-penalty", REPORT, partial(rollouts, adapter=True, beta=0.04, max_steps=30)),
    ("grpo-two-iterations", REPORT, partial(rollouts, num_iterations=2, max_steps=40)),
)  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Return all programs of this file."""
    planted = [Case(f"trainer-{name}", half, train, causes, "trl") for name, half, train, causes in PLANTED]
    return (*planted, *[Case(f"trainer-{name}", half, train, needs="trl") for name, half, train in SOUND])
