"""What watching costs a step of TRL's SFT and GRPO: blocks of steps with it and without take turns in one training.

    build/wild/environments/language/bin/python -m benchmarks.language.cost sft grpo --write docs/fine-tuning.md

As `benchmarks.framework_cost`: each kind of block comes once in a round, in an order drawn by chance. A figure is the
processor time of all threads in a block, over that of the two blocks without watching of the same round: the mean of
the middle 80 % of the rounds, with an interval that holds 95 % of 2,000 draws of rounds (bootstrap). The model is a
decoder of random weights on one thread; the trainer logs each step, and the run begins before the first block.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.pages import put
from benchmarks.framework_cost import AGAIN, OFF, PLANTED, PLANTED_SHARE, Blocks, shown

ON = "as `trackside run` watches"
KINDS = (OFF, AGAIN, PLANTED, ON)
GOALS = {"sft": 2.0, "grpo": 1.0}
STEPS = {"sft": 12, "grpo": 6}  # of a block
FIRST_STEPS = {"sft": 120, "grpo": 110}  # until the intervals are settled, and the training rests
_ALL = 2  # the clock of all threads, of those of a block
_WARM_UP = 4


def main(words: Sequence[str] | None = None) -> int:
    """Measure each trainer, and print or write the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("trainers", nargs="+", choices=list(GOALS))
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--write", type=Path, metavar="PAGE")
    options.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.training:
        _train(given.trainers[0], given.rounds)
        return 0
    lines = ["| trainer | more processor | off again | 1 % planted | step, ms | goal |", "|---|---|---|---|---|---|"]
    loads = [os.getloadavg()[0]]
    for trainer in given.trainers:
        rounds = _measured(trainer, given.rounds)
        step = 1000 * statistics.median(each[OFF][_ALL] for each in rounds) / STEPS[trainer]
        cells = [shown(_shares(rounds, kind)) for kind in (ON, AGAIN, PLANTED)]
        lines.append(f"| {trainer.upper()} | {' | '.join(cells)} | {step:.0f} | below {GOALS[trainer]:g} % |")
        loads.append(os.getloadavg()[0])
    head = (
        f"{time.strftime('%d %B %Y', time.gmtime())}: {given.rounds} rounds; load {min(loads):.1f} to {max(loads):.1f} "
        f"on {os.cpu_count()} cores."
    )
    put("\n".join([head, "", *lines]), given.write, begin="<!-- cost of a step -->", end="<!-- end of cost -->")
    return 0


def _shares(rounds: list[dict[str, list[float]]], kind: str) -> list[float]:
    found = []
    for each in rounds:
        usual = each[OFF][_ALL] if kind == AGAIN else (each[OFF][_ALL] + each[AGAIN][_ALL]) / 2
        found.append(100 * (each[kind][_ALL] / usual - 1))
    return found


def _measured(trainer: str, rounds: int) -> list[dict[str, list[float]]]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.language.cost", trainer, "--rounds", str(rounds)]
    ended = subprocess.run([*command, "--training"], check=True, stdout=subprocess.PIPE, text=True)
    found: list[dict[str, list[float]]] = json.loads(ended.stdout.splitlines()[-1])
    return found


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
    given = argparse.Namespace(kinds=list(KINDS), rounds=rounds, steps=STEPS[name])
    capture.install()

    def join() -> Callable[[], object]:
        capture.install()
        return capture.leave

    blocks = Blocks(given, {ON: join})

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
                sys.stdout.write("\n" + json.dumps(blocks.rounds) + "\n")
                sys.stdout.flush()
                os._exit(0)

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
