"""The samples of docs/integrations.md about trainers, as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from lightning.pytorch import LightningModule
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations.md"
SAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def sample(word: str) -> str:
    (found,) = [str(code) for code in SAMPLES if word in code]
    return found


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    AcceleratorState._reset_state()
    PartialState._reset_state()


def loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    inputs = torch.randn(64, 10)
    return DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16)


def test_hugging_face() -> None:
    words = torch.randint(1, 50, (32, 12))
    names = {
        "model": GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=1, n_head=2)),
        "arguments": TrainingArguments(output_dir="out", max_steps=5, report_to=[], use_cpu=True, disable_tqdm=True),
        "dataset": [{"input_ids": row, "labels": row} for row in words],
    }
    exec(sample("transformers"), names)  # noqa: S102 - the page is ours
    assert list(Path(".trackside/runs").iterdir())


def test_lightning() -> None:
    class Module(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(10, 2)

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    exec(sample("lightning.pytorch"), {"module": Module(), "loader": loader()})  # noqa: S102 - the page is ours
    assert list(Path(".trackside/runs").iterdir())


def test_accelerate() -> None:
    model = torch.nn.Linear(10, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = {"model": model, "optimizer": optimizer, "loader": loader(), "criterion": torch.nn.CrossEntropyLoss()}
    exec(sample("set_trigger"), names)  # noqa: S102 - the page is ours
    assert list(Path(".trackside/runs").iterdir())
