"""Fine-tunes a tiny language model with random weights by transformers' Trainer, on numbers that count on.

    trackside run -- python examples/finetuning/sft.py
    trackside run -- python examples/finetuning/sft.py --fault end-masked

Nothing in it knows of Trackside. `--fault` plants a mistake that people make: the padding token is the end token, so
that the collator masks both; labels on padding; or labels that the collator has shifted already.
"""

import argparse
import random

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

PAD, END, BEGIN, FIRST, WORDS, UNLABELLED = 0, 1, 2, 3, 27, -100


def rows(count):
    """Return prompts, and answers that count on from the last number of the prompt."""
    draw, found = random.Random(0), []  # noqa: S311 - data
    for _ in range(count):
        prompt = [BEGIN, *[FIRST + draw.randrange(24) for _ in range(draw.randint(2, 5))]]
        answer = [FIRST + (prompt[-1] - FIRST + k + 1) % 24 for k in range(draw.randint(3, 6))]
        found.append({"prompt": prompt, "answer": [*answer, END]})
    return found


def collator(fault):
    pad = END if fault == "end-masked" else PAD

    def collate(batch):
        width = max(len(row["prompt"]) + len(row["answer"]) for row in batch)
        tokens, labels, mask = [], [], []
        for row in batch:
            own = [*row["prompt"], *row["answer"]]
            gap = width - len(own)
            padded = [*own, *[pad] * gap]
            wanted = [*[UNLABELLED] * len(row["prompt"]), *row["answer"], *[pad] * gap]
            if fault != "padding-labelled":
                wanted = [UNLABELLED if word == pad else word for word in wanted]
            if fault == "shifted":
                wanted = [*wanted[1:], UNLABELLED]
            tokens.append(padded)
            labels.append(wanted)
            mask.append([1] * len(own) + [0] * gap)
        return {
            name: torch.tensor(x)
            for name, x in zip(("input_ids", "labels", "attention_mask"), (tokens, labels, mask), strict=True)
        }

    return collate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--fault", choices=["none", "end-masked", "padding-labelled", "shifted"], default="none")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
    special = {"eos_token_id": END, "pad_token_id": PAD, "bos_token_id": BEGIN}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=WORDS, **sizes, **heads, **special))
    settings = TrainingArguments(
        "out",
        max_steps=arguments.steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        logging_steps=10,
        remove_unused_columns=False,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=model, args=settings, train_dataset=rows(512), data_collator=collator(arguments.fault)).train()


if __name__ == "__main__":
    main()
