"""What watching costs a step of TRL's SFT and GRPO: blocks of steps with it and without take turns in one training.

    build/wild/environments/language/bin/python -m benchmarks.language.cost sft grpo --write docs/fine-tuning.md

`benchmarks.engine.blocks` says how; times are those of the processor, of all threads. The model is a decoder of random
weights on one thread; the trainer logs each step, and the run begins before the first block.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.blocks import AGAIN, ALWAYS, OFF, PLANTED, PLANTED_SHARE, Blocks, answer, answer_of, shown
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put, table

ON = "as `trackside run` watches"
GOALS = {"sft": 2.0, "grpo": 1.0}
STEPS = {"sft": 12, "grpo": 6}  # of a block
FIRST_STEPS = {"sft": 120, "grpo": 110}  # until the intervals are settled, and the training rests
_WARM_UP = 4


def main(words: Sequence[str] | None = None) -> int:
    """Measure each trainer, and print or write the table."""
    options = parser(__doc__)
    options.add_argument("trainers", nargs="+", choices=list(GOALS))
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--write", type=Path, metavar="PAGE")
    options.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.training:
        _train(given.trainers[0], given.rounds)
        return 0
    rows, loads = [], [os.getloadavg()[0]]
    for trainer in given.trainers:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.language.cost", trainer]
        rounds = answer_of([*command, "--rounds", str(given.rounds), "--training"])
        step = 1000 * statistics.median(each[OFF][0] for each in rounds) / STEPS[trainer]
        cells = (shown(rounds, kind) for kind in (ON, AGAIN, PLANTED))
        rows.append((trainer.upper(), *cells, f"{step:.0f}", f"below {GOALS[trainer]:g} %"))
        loads.append(os.getloadavg()[0])
    head = (
        f"{time.strftime('%d %B %Y', time.gmtime())}: {given.rounds} rounds; load {min(loads):.1f} to {max(loads):.1f} "
        f"on {os.cpu_count()} cores."
    )
    heads = "trainer | more processor | off again | 1 % planted | step, ms | goal"
    put([head, "", *table(heads, rows)], given.write, begin="<!-- cost of a step -->", end="<!-- end of cost -->")
    return 0


def _train(name: str, rounds: int) -> None:
    """Train in this process, and print what each block took."""
    import torch
    from transformers import TrainerCallback

    from benchmarks.engine.usual import usual_capture
    from trackside.environment import CaptureEnvironment
    from trackside.frameworks.pytorch.adapter import PyTorchAdapter

    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="cost-")
    os.chdir(folder)
    capture = PyTorchAdapter(CaptureEnvironment(f"{folder}/run", usual_capture().to_json(), 0, 1))
    capture.install()

    def join() -> Callable[[], object]:
        capture.install()
        return capture.leave

    kinds = [*ALWAYS, ON]
    blocks = Blocks(kinds, {ON: join}, rounds=rounds, steps=STEPS[name], now=lambda: [time.process_time()])

    class Turns(TrainerCallback):  # type: ignore[misc]
        """The callback that ends a block, and begins the next one."""

        def __init__(self) -> None:
            self.steps, self.began = 0, 0.0

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.steps += 1
            first = FIRST_STEPS[name]
            if self.steps == first:
                capture.leave()
            elif self.steps == first + _WARM_UP:
                self.began = time.process_time()
            elif self.steps == 2 * first:
                blocks.planted_seconds = PLANTED_SHARE * (time.process_time() - self.began) / (first - _WARM_UP)
                gc.collect()
                gc.freeze()
                blocks.begin()
            elif self.steps > 2 * first and blocks.step_ended() and not blocks.begin():
                answer(blocks.rounds)

    _trainer(name, Turns()).train()


def _trainer(name: str, callback: Any) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

    from benchmarks.language.trainers import COMMON, WORDS, pairs, rows, tokenizer

    words = tokenizer()
    sizes = {"hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 2, "vocab_size": len(WORDS)}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    net = Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, eos_token_id=1, pad_token_id=0, bos_token_id=2))
    found = pairs(0, count=2048, longest=40)
    settings = {**COMMON, "max_steps": 10**6, "learning_rate": 1e-4}
    if name == "sft":
        data = rows(prompt=[f"{p} <bot>" for p, _ in found], completion=[f" {a}" for _, a in found])
        arguments = SFTConfig("out", per_device_train_batch_size=16, **settings)
        return SFTTrainer(net, args=arguments, train_dataset=data, processing_class=words, callbacks=[callback])

    def reward(completions: list[str], **_: Any) -> list[float]:
        return [text.split().count("n1") / 16 for text in completions]

    lengths = {"num_generations": 8, "max_completion_length": 32}
    arguments = GRPOConfig("out", per_device_train_batch_size=16, **settings, **lengths)
    data = rows(prompt=[prompt for prompt, _ in found])
    return GRPOTrainer(net, reward, args=arguments, train_dataset=data, processing_class=words, callbacks=[callback])


if __name__ == "__main__":
    sys.exit(main())
