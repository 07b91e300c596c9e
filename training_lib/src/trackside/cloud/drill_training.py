"""The training of a drill: a least-squares fit that goes wrong on purpose. `python -m trackside.cloud.drill_training`.

It needs NumPy only, so it runs in the image of the rule container. It trains well until an evaluator judges the run (or
`--patience-seconds` are over) and `--healthy-steps` are made. From then on its learning rate is a thousand times too
large: the loss grows until it is infinite. The training goes on, as a real one would, until it is stopped or
`--most-seconds` are over. The moment of the fault is stored in the run (`drill-fault.json`), so that the drill can
measure from it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from trackside.contracts.run_layout import RULE_OUTPUT, TENSORS, TRAINING_JOB_KEY, collections_key
from trackside.environment import CaptureEnvironment
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.open_store import open_store

FAULT_KEY = "drill-fault.json"
RATE, WRONG_RATE = 0.1, 100.0
WORKER = "worker_0"
LOSS, WEIGHT, GRADIENT = "MSELoss_output_0", "Drill_fit.weight", "gradient/Drill_fit.weight"
COLLECTIONS = {"losses": LOSS, "weights": WEIGHT, "gradients": GRADIENT}


def steps(is_wrong: Callable[[], bool]) -> Iterator[Mapping[str, float]]:
    """Yield the loss, the weight and its gradient of each step of the fit, without end.

    Once `is_wrong` returns True, the learning rate is too large.
    """
    samples, noise = np.linspace(-1.0, 1.0, 64, dtype=np.float32), np.random.default_rng(0)
    weight = np.float32(0.0)
    while True:
        # Targets are never quite the same, so that the gradient never vanishes, however long this goes on well.
        wanted = np.float32(3.0) * samples + noise.normal(0.0, 0.1, samples.size).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # the fault that is wanted
            wrong_by = weight * samples - wanted
            loss = float(np.mean(wrong_by**2))
            gradient = np.float32(2.0 * np.mean(wrong_by * samples, dtype=np.float32))
        yield {LOSS: loss, WEIGHT: float(weight), GRADIENT: float(gradient)}
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.float32(weight - np.float32(WRONG_RATE if is_wrong() else RATE) * gradient)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train. Return 0 if the training was not stopped."""
    options = _parse(arguments)
    run = CaptureEnvironment.read().run_uri
    if not run:
        sys.exit("TRACKSIDE_RUN is not set: it is the location of the run. `trackside drill` sets it.")
    Training(
        run,
        healthy_steps=options.healthy_steps,
        step_seconds=options.step_seconds,
        patience_seconds=options.patience_seconds,
        most_seconds=options.most_seconds,
    ).train()
    return 0


class Training:
    """A training that writes every step into the run at `run_uri`.

    run_uri           location of the run
    healthy_steps     least number of steps before the fault
    step_seconds      pause after each step
    patience_seconds  longest time to wait for an evaluator before the fault
    most_seconds      longest time of the training
    """

    def __init__(
        self,
        run_uri: str,
        *,
        healthy_steps: int,
        step_seconds: float,
        patience_seconds: float,
        most_seconds: float,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run, self._tensors = open_store(run_uri), open_store(f"{run_uri}/{TENSORS}")
        self._healthy_steps, self._step_seconds = healthy_steps, step_seconds
        self._clock, self._sleep = clock, sleep
        now = clock()
        self._latest, self._until = now + patience_seconds, now + most_seconds
        self._step, self._is_wrong = 0, False

    def train(self) -> None:
        """Train until the time is over. Raises the errors of stores."""
        records = [CollectionRecord(name, tensor_names=(tensor,)) for name, tensor in COLLECTIONS.items()]
        self._tensors.put(collections_key(WORKER), encode_collections(records, num_workers=1))
        for step, values in enumerate(steps(self._goes_wrong)):
            self._step = step
            if self._clock() >= self._until:
                return
            pairs = [(name, np.asarray([value], dtype=np.float32)) for name, value in values.items()]
            files = encode_step(pairs, step=step, mode="TRAIN", mode_step=step, worker=WORKER, wall_time=self._clock())
            write_step(self._tensors, files)
            self._sleep(self._step_seconds)

    def _goes_wrong(self) -> bool:
        """Return True once the fault has begun. Store its moment when it begins.

        Called once for each step, after the step was written.
        """
        if self._is_wrong or self._step + 1 < self._healthy_steps:
            return self._is_wrong
        self._is_wrong = self._clock() >= self._latest or self._run.exists(f"{RULE_OUTPUT}/{TRAINING_JOB_KEY}")
        if self._is_wrong:
            self._run.put(FAULT_KEY, json.dumps({"step": self._step + 1, "at": self._clock()}).encode())
            sys.stdout.write(f"after step {self._step} the learning rate is {WRONG_RATE:g}\n")
            sys.stdout.flush()
        return self._is_wrong


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trackside.cloud.drill_training", description=__doc__)
    parser.add_argument("--healthy-steps", type=int, default=10)
    parser.add_argument("--step-seconds", type=float, default=0.5)
    parser.add_argument("--patience-seconds", type=float, default=900)
    parser.add_argument("--most-seconds", type=float, default=1800)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
