"""Small programs after reports of users in the issues of transformers, TRL and PEFT: ten mistakes and six sound ones.

They were written before the rules that they test, and their first verdicts stand in `docs/fine-tuning.md`. Where one
follows a report, its number stands with it.
"""

# ruff: noqa: E501, S311, S105 - tables; data are drawn, and tokens are no passwords

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.language.case import TUNE, Case
from benchmarks.language.scripts import next_number, taught
from benchmarks.language.trainers import COMMON, NUMBERS, WORDS, model, pairs, rows, tokenizer

FROZEN = ("frozen-parameters", "parameters-not-in-optimizer", "adapter-settings")


def lora(**settings: Any) -> Any:
    """Return the settings of an adapter for the queries and values."""
    from peft import LoraConfig

    given = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    return LoraConfig(**{**given, **settings})


def completions(seed: int, *, longest: int = 6) -> Any:
    """Return rows of a prompt, and a completion of up to so many words."""
    found = pairs(seed, longest=longest)
    return rows(
        prompt=[f"<user> {prompt} <bot>" for prompt, _ in found], completion=[f" {answer}" for _, answer in found]
    )


def sft(
    net: Any, data: Any, seed: int, *, callbacks: list[Any] | None = None, steps: int = 40, **settings: Any
) -> None:
    """Train by TRL's trainer of completions."""
    from trl import SFTConfig, SFTTrainer

    given = {"max_steps": steps, "per_device_train_batch_size": 8, "learning_rate": 2e-3, "seed": seed, **COMMON}
    arguments = SFTConfig("out", **{**given, **settings})
    SFTTrainer(net, args=arguments, train_dataset=data, processing_class=tokenizer(), callbacks=callbacks).train()


def truncated(seed: int, *, max_length: int, longest: int) -> None:
    """trl#6668: a maximum length that cuts off most completions; those with no token left are dropped in silence."""
    sft(model(seed), completions(seed, longest=longest), seed, max_length=max_length, completion_only_loss=True)


def saved_adapter(seed: int, **settings: Any) -> tuple[Any, Any]:
    """Return a tokenizer, and a model that has learned a little with an adapter saved beside it, in the folder `first`."""
    from peft import get_peft_model

    words, net = taught(seed, 60)
    get_peft_model(net, lora(**settings)).save_pretrained("first")
    words, net = taught(seed, 60)
    return words, net


def reopened(seed: int, *, trainable: bool) -> None:
    """trl#6700, peft#282: an adapter is loaded to go on with it."""
    from peft import PeftModel

    words, net = saved_adapter(seed)
    rollouts(PeftModel.from_pretrained(net, "first", is_trainable=trainable), words, seed, beta=0.02)


def right_number(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return 1 for each answer that is the number after that of its prompt."""
    return next_number(prompts, completions)


def rollouts(net: Any, words: Any, seed: int, *, judge: Callable[..., list[float]] = right_number,
             longest: int = 6, **settings: Any) -> None:  # fmt: skip
    """Train by GRPO on the number after that of the prompt."""
    from trl import GRPOConfig, GRPOTrainer

    drawn = random.Random(seed)
    given = {"max_steps": 40, "per_device_train_batch_size": 32, "num_generations": 8, "learning_rate": 1e-3}
    arguments = GRPOConfig("out", **{**given, "seed": seed, "max_completion_length": longest, **COMMON, **settings})
    data = rows(prompt=[f"n{drawn.randrange(NUMBERS)} <bot>" for _ in range(256)])
    GRPOTrainer(net, judge, args=arguments, train_dataset=data, processing_class=words).train()


def own_loss(seed: int, *, counts: bool) -> None:
    """transformers#37110, #37766: a loss of the script's own under accumulation, over rows of unlike lengths."""
    import torch
    from torch.nn import functional
    from transformers import Trainer, TrainingArguments

    words, net = tokenizer(), model(seed)
    found = [
        (words(f"<user> {p} <bot>")["input_ids"], words(f"{a} <eos>")["input_ids"]) for p, a in pairs(seed, longest=40)
    ]

    def collate(batch: list[Any]) -> dict[str, Any]:
        width = max(len(p) + len(a) for p, a in batch)
        tokens = [[*p, *a, *[0] * (width - len(p) - len(a))] for p, a in batch]
        labels = [[*[-100] * len(p), *a, *[-100] * (width - len(p) - len(a))] for p, a in batch]
        ids = torch.tensor(tokens)
        return {"input_ids": ids, "labels": torch.tensor(labels), "attention_mask": (ids != 0).long()}

    def loss_of(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        scores = outputs.logits[:, :-1].flatten(0, 1)
        total = functional.cross_entropy(scores, labels[:, 1:].flatten(), reduction="sum")
        return total / num_items_in_batch

    class Own(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
            scores = outputs.logits[:, :-1].flatten(0, 1)
            loss = functional.cross_entropy(scores, inputs["labels"][:, 1:].flatten())
            return (loss, outputs) if return_outputs else loss

    arguments = TrainingArguments("out", max_steps=30, per_device_train_batch_size=1, gradient_accumulation_steps=8,
                                  learning_rate=2e-3, seed=seed, remove_unused_columns=False, **COMMON)  # fmt: skip
    kind = Trainer if counts else Own
    own = {"compute_loss_func": loss_of} if counts else {}
    kind(model=net, args=arguments, train_dataset=found, data_collator=collate, **own).train()


def cut_rollouts(seed: int) -> None:
    """trl#5697: answers are cut off before they hold what is asked for, and the reward is zero."""
    words, net = taught(seed, 60)

    def boxed(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(text.split()[-1:] == ["<bot>"] and "<user>" in text) for text in completions]

    net.generation_config.eos_token_id = 3
    words.eos_token = "<unk>"
    rollouts(net, words, seed, judge=boxed, longest=5)


def preferences(seed: int, *, side: str = "right", adapter: Any = None, **settings: Any) -> None:
    """Train by DPO; `side` "long": the chosen answers are the long ones, whatever is in them (after trl#2003).

    With a reference that is set to the policy after each step (after trl#1843), all margins are zero.
    """
    from trl import DPOConfig, DPOTrainer

    drawn = random.Random(seed)
    words, net = taught(seed, 40)

    def noise(count: int) -> str:
        return " ".join(f"n{drawn.randrange(NUMBERS)}" for _ in range(count))

    found = pairs(seed)
    chosen = [f" {noise(drawn.randint(12, 20))}" if side == "long" else f" {answer}" for _, answer in found]
    rejected = [f" {noise(drawn.randint(3, 6))}" for _ in found]
    data = rows(prompt=[f"{prompt} <bot>" for prompt, _ in found], chosen=chosen, rejected=rejected)
    if callable(adapter):
        net = adapter(net)
    given = {"max_steps": 40, "per_device_train_batch_size": 8, "learning_rate": 5e-4, "seed": seed, "beta": 0.1}
    given["gradient_checkpointing"] = False
    arguments = DPOConfig("out", **{**given, **COMMON, **settings})
    reference = copy.deepcopy(net) if adapter is None else None
    DPOTrainer(net, ref_model=reference, args=arguments, train_dataset=data, processing_class=words).train()


def adapted(seed: int, *, merges: str = "", **settings: Any) -> None:
    """Train an adapter; `merges` "always": it is merged for the samples of step 10 (peft#2437), and stays so."""
    from peft import get_peft_model
    from transformers import TrainerCallback

    net = get_peft_model(model(seed), lora(**settings))

    class Sampling(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if merges and state.global_step % 10 == 0 and not (merges == "always" and state.global_step > 10):
                net.merge_adapter()
                if merges == "for a moment":
                    net.unmerge_adapter()

    for name, parameter in net.named_parameters():
        if "lm_head" in name:  # as with modules_to_save
            parameter.requires_grad_(requires_grad=True)
    sft(net, completions(seed), seed, callbacks=[Sampling()])


def second_adapter(seed: int) -> None:
    """peft#3580: a second adapter is loaded to be trained beside a frozen one, and the frozen one is trained."""
    from peft import PeftModel

    _, net = saved_adapter(seed)
    net = PeftModel.from_pretrained(net, "first")
    net.load_adapter("first", adapter_name="second", is_trainable=True)
    sft(net, completions(seed), seed)


def masked_words(seed: int, *, masks: bool) -> None:
    """Train with the collator for masked words, as it is by default, of a causal model; or with that of next words."""
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    words, net = tokenizer(more=("<mask>",)), model(seed, words=len(WORDS) + 1)
    words.mask_token = "<mask>"
    data = [{"input_ids": words(f"{p} <bot> {a} <eos>")["input_ids"]} for p, a in pairs(seed)]
    arguments = TrainingArguments(
        "out", max_steps=50, per_device_train_batch_size=16, learning_rate=3e-3, seed=seed, **COMMON
    )
    collator = DataCollatorForLanguageModeling(words) if masks else DataCollatorForLanguageModeling(words, mlm=False)
    Trainer(model=net, args=arguments, train_dataset=data, data_collator=collator).train()


def _adapted(net: Any) -> Any:
    from peft import get_peft_model

    return get_peft_model(net, lora())


PLANTED: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("truncated-completions", partial(truncated, max_length=16, longest=40), ("label-mask", "hidden-loss")),
    ("adapter-reopened", partial(reopened, trainable=False), FROZEN),
    ("loss-of-its-own", partial(own_loss, counts=False), ("uneven-accumulation",)),
    ("answers-cut-off", cut_rollouts, ("unended-answers", "uninformative-reward")),
    ("preferences-by-length", partial(preferences, side="long"), ("length-preference",)),
    ("reference-follows", partial(preferences, sync_ref_model=True, ref_model_sync_steps=1, ref_model_mixup_alpha=1.0), ("reference-follows",)),
    ("alpha-for-another-rank", partial(adapted, use_rslora=True, r=64, lora_alpha=2048), ("adapter-settings", "learning-rate-too-high")),
    ("merged-for-samples", partial(adapted, merges="always"), ("adapter-settings", *FROZEN)),
    ("second-adapter", second_adapter, FROZEN),
    ("masked-words", partial(masked_words, masks=True), ("label-mask",)),
)  # fmt: skip

SOUND: tuple[tuple[str, Any], ...] = (
    ("few-cut", partial(truncated, max_length=40, longest=40)),
    ("adapter-continued", partial(reopened, trainable=True)),
    ("counted-loss", partial(own_loss, counts=True)),
    ("preferences-adapted", partial(preferences, adapter=_adapted)),
    ("merged-for-a-moment", partial(adapted, merges="for a moment", use_rslora=True, r=16, lora_alpha=16)),
    ("next-words", partial(masked_words, masks=False)),
)  # fmt: skip


def cases() -> tuple[Case, ...]:
    """Return all programs of this file."""
    planted = [Case(f"issue-{name}", TUNE, train, causes, "trl") for name, train, causes in PLANTED]
    return (*planted, *[Case(f"issue-{name}", TUNE, train, needs="trl") for name, train in SOUND])
