"""Names of many tools: what each number means, and what none of them means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run.recorded_names import LOGGED
from trackside.imported.finding import LeftOut, find_logs
from trackside.imported.names import Meanings, meanings_of, parse_columns, tensor_of, words_of
from trackside.imported.written_run import write_run
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import Trial

# Names of a log; its training losses, evaluation losses with the loss they belong to, learning rate, norm, step, epoch.
TABLE = {
    "transformers": (
        ["loss", "grad_norm", "learning_rate", "epoch", "step", "eval_loss", "eval_accuracy"],
        ({"loss": "loss"}, {"eval_loss": "loss"}, "learning_rate", "grad_norm", "step", "epoch"),
    ),
    "transformers in charts": (
        ["train/loss", "train/grad_norm", "eval/loss", "train/epoch", "train/global_step", "_step"],
        ({"loss": "train/loss"}, {"eval/loss": "loss"}, "", "train/grad_norm", "train/global_step", "train/epoch"),
    ),
    "Keras": (
        ["epoch", "accuracy", "loss", "val_accuracy", "val_loss"],
        ({"loss": "loss"}, {"val_loss": "loss"}, "", "", "", "epoch"),
    ),
    "Lightning": (
        ["train_loss_step", "train_loss_epoch", "val_loss", "lr-Adam", "step", "epoch"],
        ({"loss": "train_loss_step"}, {"val_loss": "loss"}, "lr-Adam", "", "step", "epoch"),
    ),
    "examples of PyTorch": (
        ["Loss/train", "Loss/test", "Accuracy/train"],
        ({"Loss": "Loss/train"}, {"Loss/test": "Loss"}, "", "", "", ""),
    ),
    "XGBoost": (
        ["round", "train-rmse", "eval-rmse", "eval-auc"],
        ({"rmse": "train-rmse"}, {"eval-rmse": "rmse"}, "", "", "round", ""),
    ),
    "LightGBM": (
        ["training/binary_logloss", "valid_1/binary_logloss", "valid_1/auc"],
        (
            {"binary_logloss": "training/binary_logloss"},
            {"valid_1/binary_logloss": "binary_logloss"},
            "",
            "",
            "",
            "",
        ),
    ),
    "a total among its parts": (
        ["box_loss", "cls_loss", "total_loss", "val/total_loss"],
        ({"total_loss": "total_loss"}, {"val/total_loss": "total_loss"}, "", "", "", ""),
    ),
    "parts without a total": (
        ["train/box_loss", "train/cls_loss", "val/box_loss", "val/cls_loss"],
        (
            {"box_loss": "train/box_loss", "cls_loss": "train/cls_loss"},
            {"val/box_loss": "box_loss", "val/cls_loss": "cls_loss"},
            "",
            "",
            "",
            "",
        ),
    ),
    "capital letters": (["trainLoss", "valLoss"], ({"trainLoss": "trainLoss"}, {"valLoss": "trainLoss"}, *[""] * 4)),
    "fairseq": (
        ["num_updates", "train_inner/loss", "gnorm", "lr", "valid/loss"],
        ({"loss": "train_inner/loss"}, {"valid/loss": "loss"}, "lr", "gnorm", "num_updates", ""),
    ),
    "no loss": (["loss_scale", "best_loss", "loss_weight", "accuracy", "step"], ({}, {}, "", "", "step", "")),
    "norms of layers": (["loss", "grad_norm/a.w", "grad_norm/b.w"], ({"loss": "loss"}, {}, "", "", "", "")),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_guess(case: str) -> None:
    names, (losses, evaluations, rate, norm, step, epoch) = TABLE[case]
    found = meanings_of(names, {})
    assert found.losses == losses
    assert {one.column: one.loss for one in found.evaluations} == evaluations
    assert (found.rate, found.norm, found.step, found.epoch) == (rate, norm, step, epoch)
    assert not found.has_several_aims


def test_losses_that_need_not_fall() -> None:
    for names in (["loss_D", "loss_G"], ["loss", "reward"], ["policy_loss", "value_loss"], ["loss", "rewards/chosen"]):
        assert meanings_of(names, {}).has_several_aims, names
    assert not meanings_of(["loss", "reward"], {"loss": "loss"}).has_several_aims


def test_of_two_ways_to_log_a_loss_the_one_with_more_points() -> None:
    names = ["train_loss_epoch", "train_loss_step"]
    assert meanings_of(names, {}, sizes={names[0]: 4, names[1]: 400}).losses == {"loss": "train_loss_step"}
    assert meanings_of(names, {}, sizes={names[0]: 4, names[1]: 2}).losses == {"loss": "train_loss_epoch"}


def test_columns_of_the_user_go_before_guesses() -> None:
    chosen = parse_columns(["loss=ce_a, step=iter2", "lr=rate"])
    assert chosen == {"loss": "ce_a", "step": "iter2", "learning_rate": "rate"}
    found = meanings_of(["step", "loss", "ce_a", "iter2", "rate"], chosen)
    assert found == Meanings({"ce_a": "ce_a"}, (), "rate", "", "iter2", "", ("step", "loss"), has_several_aims=False)


def test_wrong_columns_are_named_all_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_columns(["los=a,step"])
    assert "Did you mean 'loss'?" in str(raised.value)
    assert "'step': is no pair" in str(raised.value)
    with pytest.raises(ConfigurationError, match="The log has no column 'los'") as raised:
        meanings_of(["loss", "step"], {"loss": "los"})
    assert "the log has: loss, step" in str(raised.value)


def test_words() -> None:
    assert words_of("trainLoss") == words_of("train/loss") == words_of("trainloss") == ("train", "loss")
    assert words_of("valid_1's l2") == ("valid", "1", "s", "l2")


def test_a_log_of_reinforcement_learning_is_a_run_with_our_names(tmp_path: Path) -> None:
    rows = [
        {
            "step": 10 * k,
            "actor/pg_loss": 0.1,
            "critic/score/mean": k / 10,
            "val-core/gsm8k/acc/mean@1": 0.5,
            "other": 1,
        }
        for k in range(5)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (log,) = find_logs(str(tmp_path / "log.jsonl"), {}, LeftOut())
    store = MemoryStore()
    write_run(log, uri="memory://run", stores=lambda _: store)
    trial = Trial(store, store)
    trial.refresh()
    found = {
        name: [
            (c.steps.tolist(), c.values.tolist()) for c in trial.columns(LOGGED + name, "mean", last_step=99, mode=None)
        ]
        for name in ("reward", "held_out_reward", "other")
    }
    steps = [0, 10, 20, 30, 40]
    assert found == {
        "reward": [(steps, [0.0, 0.1, 0.2, 0.3, 0.4])],
        "held_out_reward": [(steps, [0.5] * 5)],
        "other": [],
    }


@pytest.mark.parametrize(
    ("tag", "tensor"),
    [
        ("fc1.weight", "fc1.weight"),
        ("fc1.weight.grad", "gradient/fc1.weight"),
        ("gradients/fc1.weight", "gradient/fc1.weight"),
        ("grad_layers.0.bias", "gradient/layers.0.bias"),
        ("weights/fc1.weight", "fc1.weight"),
        ("dense_1/kernel_0/gradient", "gradient/dense_1/kernel_0"),
        ("dense_1/kernel/histogram", "dense_1/kernel/histogram"),
        ("activations/relu", ""),
        ("gradients", ""),
        ("logits", ""),
    ],
)
def test_the_tensor_of_a_histogram(tag: str, tensor: str) -> None:
    assert tensor_of(tag) == tensor
