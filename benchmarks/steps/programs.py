"""Small sound trainings, each by another framework; prints as JSON what the framework itself counts and logs.

    python benchmarks/steps/programs.py lightning 4

The second word is the number of micro-batches that an update is made of. Every program has a schedule that changes the
rate at each update, so that a rate of the step before or after is another number.

steps   the framework's own count
losses  the losses that the framework logs, in order
rates   the rates that it logs, in order; empty where it logs none
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

UPDATES = 4
ROWS_OF_BATCH = 4


def _data(parts: int, updates: int = UPDATES) -> Any:
    import torch

    torch.manual_seed(0)
    rows = torch.randn(updates * parts * ROWS_OF_BATCH, 6)
    return torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long() + (rows[:, 1] > 0).long())


def _loader(parts: int) -> Any:
    import torch

    return torch.utils.data.DataLoader(_data(parts), batch_size=ROWS_OF_BATCH)


def _layers() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


def by_hand(parts: int) -> dict[str, Any]:
    import torch

    model = _layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    losses, rates, total, steps = [], [], 0.0, 0
    for number, (rows, labels) in enumerate(_loader(parts), start=1):
        loss = torch.nn.functional.cross_entropy(model(rows), labels) / parts
        loss.backward()
        total += loss.item()
        if number % parts == 0:
            losses.append(total)
            rates.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total, steps = 0.0, steps + 1
    return {"steps": steps, "losses": losses, "rates": rates}


def _of_trainer(trainer: Any) -> dict[str, Any]:
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    return {
        "steps": trainer.state.global_step,
        "losses": [row["loss"] for row in rows],
        "rates": [row["learning_rate"] for row in rows],
    }


def _arguments(parts: int) -> dict[str, Any]:
    return {
        "output_dir": tempfile.mkdtemp(), "max_steps": UPDATES, "per_device_train_batch_size": 2, "use_cpu": True,
        "gradient_accumulation_steps": parts, "report_to": [], "save_strategy": "no", "disable_tqdm": True,
        "logging_steps": 1, "learning_rate": 0.05, "seed": 1,
    }  # fmt: skip


def transformers(parts: int) -> dict[str, Any]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=12))
    tokens = [torch.randint(0, 16, (12,)) for _ in range(64)]
    rows = [
        {"input_ids": each, "labels": torch.where(torch.arange(12) < number % 9, -100, each)}
        for number, each in enumerate(tokens)
    ]
    return _of_trainer(Trainer(model=model, args=TrainingArguments(**_arguments(parts)), train_dataset=rows))


def trl(parts: int) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    torch.manual_seed(0)
    words = "abcdefghijklmn"
    known = Tokenizer(models.WordLevel({w: k for k, w in enumerate(["<pad>", "<eos>", *words])}, unk_token="<pad>"))
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens = PreTrainedTokenizerFast(tokenizer_object=known, pad_token="<pad>", eos_token="<eos>")
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16, n_positions=16))
    texts = [{"text": " ".join(words[(k * j) % 14] for j in range(1, 4 + k % 9))} for k in range(64)]
    settings = SFTConfig(**_arguments(parts), bf16=False, gradient_checkpointing=False)
    data = Dataset.from_list(texts)
    return _of_trainer(SFTTrainer(model=model, args=settings, train_dataset=data, processing_class=tokens))


def accelerate(parts: int) -> dict[str, Any]:
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=parts)
    model = _layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, _loader(parts), schedule)
    losses, rates, total = [], [], 0.0
    for rows, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(rows), labels)
            total += loss.item() / parts
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                losses.append(total)
                rates.append(schedule.get_last_lr()[0])
                total = 0.0
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return {"steps": schedule.scheduler.last_epoch, "losses": losses, "rates": rates}


def lightning(parts: int) -> dict[str, Any]:
    import lightning as library
    import torch

    class Net(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = _layers()

        def training_step(self, batch: Any, _: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    logger = library.pytorch.loggers.CSVLogger(tempfile.mkdtemp())
    trainer = library.Trainer(
        max_epochs=1, accumulate_grad_batches=parts, accelerator="cpu", logger=logger, log_every_n_steps=1,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[library.pytorch.callbacks.LearningRateMonitor()],
    )  # fmt: skip
    trainer.fit(Net(), _loader(parts))
    with Path(logger.experiment.metrics_file_path).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rates = {row["step"]: float(row["lr-SGD"]) for row in rows if row["lr-SGD"]}  # a row for each batch, of one step
    return {
        "steps": trainer.global_step,
        "losses": [float(row["loss"]) for row in rows if row["loss"]],
        "rates": list(rates.values()),
    }


def fastai(parts: int) -> dict[str, Any]:
    import torch
    from fastai.callback.schedule import ParamScheduler, SchedExp
    from fastai.callback.training import GradientAccumulation
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import SGD

    loaders = DataLoaders(*(DataLoader(_data(parts), bs=ROWS_OF_BATCH) for _ in range(2)))
    learner = Learner(loaders, _layers(), loss_func=torch.nn.functional.cross_entropy, opt_func=SGD, lr=0.1)
    callbacks = [ParamScheduler({"lr": SchedExp(0.1, 0.01)})]
    callbacks += [GradientAccumulation(parts * ROWS_OF_BATCH)] if parts > 1 else []
    with learner.no_bar(), learner.no_logging():
        learner.fit(1, cbs=callbacks)
    losses = [float(each) for each in learner.recorder.losses]  # smoothed, one for each batch
    return {"steps": learner.train_iter, "losses": losses, "rates": [float(each) for each in learner.recorder.lrs]}


def ignite(parts: int) -> dict[str, Any]:
    import torch
    from ignite.engine import Events, create_supervised_trainer

    model = _layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    trainer = create_supervised_trainer(
        model, optimizer, torch.nn.functional.cross_entropy, gradient_accumulation_steps=parts
    )
    losses: list[float] = []
    rates: list[float] = []
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda: losses.append(trainer.state.output))

    @trainer.on(Events.ITERATION_COMPLETED(every=parts))
    def _next_rate() -> None:
        rates.append(schedule.get_last_lr()[0])
        schedule.step()

    trainer.run(_loader(parts), max_epochs=1)
    return {"steps": trainer.state.iteration, "losses": losses, "rates": rates}


def skorch(parts: int) -> dict[str, Any]:
    import torch
    from skorch import NeuralNet
    from skorch.callbacks import LRScheduler

    class Accumulating(NeuralNet):  # as its documentation has it
        def get_loss(self, *args: Any, **kwargs: Any) -> Any:
            return super().get_loss(*args, **kwargs) / parts

        def train_step(self, batch: Any, **fit_params: Any) -> Any:
            number = len(self.history[-1, "batches"])
            step = self.train_step_single(batch, **fit_params)
            if number % parts == 0:
                self.optimizer_.step()
                self.optimizer_.zero_grad()
            return step

    kind = NeuralNet if parts == 1 else Accumulating
    net = kind(
        _layers(), torch.nn.CrossEntropyLoss, optimizer=torch.optim.SGD, lr=0.1, max_epochs=1, batch_size=ROWS_OF_BATCH,
        train_split=None, verbose=0, iterator_train__shuffle=False,
        callbacks=[LRScheduler("ExponentialLR", gamma=0.5 ** (1 / parts), step_every="batch")],
    )  # fmt: skip
    net.fit(_data(parts), None)
    (epoch,) = net.history
    batches = epoch["batches"]
    return {
        "steps": len(batches),
        "losses": [batch["train_loss"] for batch in batches],
        "rates": [batch["event_lr"] for batch in batches],
    }


def keras(parts: int) -> dict[str, Any]:
    import keras as library
    import numpy as np

    library.utils.set_random_seed(0)
    layers = library.layers
    model = library.Sequential([layers.Input((6,)), layers.Dense(5, activation="relu"), layers.Dense(3)])
    schedule = library.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    optimizer = library.optimizers.SGD(schedule, gradient_accumulation_steps=parts if parts > 1 else None)
    model.compile(optimizer, library.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses: list[float] = []
    rates: list[float] = []

    class Logs(library.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            rates.append(float(self.model.optimizer.learning_rate))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append(float(logs["loss"]))  # the mean since the epoch began

    draws = np.random.default_rng(0)
    count = UPDATES * parts * ROWS_OF_BATCH
    rows, labels = draws.normal(size=(count, 6)).astype("float32"), draws.integers(0, 3, count)
    model.fit(rows, labels, batch_size=ROWS_OF_BATCH, epochs=1, verbose=0, callbacks=[Logs()], shuffle=False)
    return {"steps": int(optimizer.iterations), "losses": losses, "rates": rates}


def stable_baselines3(_: int) -> dict[str, Any]:
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.logger import KVWriter, Logger

    torch.set_num_threads(1)
    written: list[dict[str, Any]] = []

    class Written(KVWriter):
        def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
            written.append(dict(key_values))

        def close(self) -> None:
            pass

    model = DQN(
        "MlpPolicy", "CartPole-v1", learning_starts=10, train_freq=10, gradient_steps=1, seed=0,
        learning_rate=lambda left: 1e-3 * left,
    )  # fmt: skip
    model.set_logger(Logger(None, [Written()]))
    model.learn(60, log_interval=1)
    rows = [row for row in written if "train/loss" in row]
    return {
        "steps": int(model._n_updates),
        "losses": [float(row["train/loss"]) for row in rows],
        "rates": [float(row["train/learning_rate"]) for row in rows],
    }


def _numbers() -> tuple[Any, Any]:
    import numpy as np

    draws = np.random.default_rng(0)
    rows = draws.normal(size=(200, 4))
    return rows, (rows[:, 0] + draws.normal(size=200) > 0).astype(int)


def xgboost(_: int) -> dict[str, Any]:
    import xgboost as library

    rows, labels = _numbers()
    data, logged = library.DMatrix(rows, labels), dict[str, Any]()
    settings = {"objective": "binary:logistic", "eta": 0.3, "nthread": 1}
    model = library.train(
        settings, data, UPDATES, evals=[(data, "train")], evals_result=logged, verbose_eval=False,
        callbacks=[library.callback.LearningRateScheduler(lambda number: 0.3 * 0.5**number)],
    )  # fmt: skip
    return {
        "steps": model.num_boosted_rounds(),
        "losses": logged["train"]["logloss"],
        "rates": [0.3 * 0.5**number for number in range(UPDATES)],
    }


def lightgbm(_: int) -> dict[str, Any]:
    import lightgbm as library

    rows, labels = _numbers()
    data, logged = library.Dataset(rows, labels), dict[str, Any]()
    model = library.train(
        {"objective": "binary", "verbosity": -1, "num_threads": 1}, data, UPDATES, valid_sets=[data],
        callbacks=[
            library.record_evaluation(logged),
            library.reset_parameter(learning_rate=lambda number: 0.3 * 0.5**number),
        ],
    )  # fmt: skip
    return {
        "steps": model.current_iteration(),
        "losses": logged["training"]["binary_logloss"],
        "rates": [0.3 * 0.5**number for number in range(UPDATES)],
    }


def catboost(_: int) -> dict[str, Any]:
    import catboost as library

    rows, labels = _numbers()
    model = library.CatBoostClassifier(iterations=UPDATES, verbose=0, allow_writing_files=False, thread_count=1)
    model.fit(rows, labels)
    rates = [model.get_all_params()["learning_rate"]] * UPDATES
    return {"steps": model.tree_count_, "losses": model.evals_result_["learn"]["Logloss"], "rates": rates}


def sklearn_boosting(_: int) -> dict[str, Any]:
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(n_estimators=UPDATES, random_state=0).fit(*_numbers())
    return {"steps": model.n_estimators_, "losses": list(model.train_score_), "rates": [model.learning_rate] * UPDATES}


def sklearn_network(_: int) -> dict[str, Any]:
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier((5,), max_iter=UPDATES, random_state=0, learning_rate_init=0.01).fit(*_numbers())
    return {"steps": model.n_iter_, "losses": list(model.loss_curve_), "rates": [0.01] * UPDATES}


PROGRAMS: dict[str, Callable[[int], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        by_hand, xgboost, lightgbm, catboost, sklearn_boosting, sklearn_network, keras, ignite, skorch, accelerate,
        lightning, stable_baselines3, transformers, fastai, trl,
    )
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](int(sys.argv[2]))))
