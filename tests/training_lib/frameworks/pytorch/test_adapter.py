"""The adapter of PyTorch, by the tests that every adapter inherits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.testing.adapter_contract import AdapterContract, Training


class Net(torch.nn.Module):
    """A linear model."""

    def __init__(self, weight: NDArray[np.float64]) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
        self.fc.weight.data = torch.tensor(weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.fc(inputs)


class TestPyTorchAdapter(AdapterContract):
    """Unmodified training."""

    weight_name = "Net_fc.weight"

    def train(self, training: Training, run: str, request: CaptureRequest) -> NDArray[np.float64]:
        environment = replace(CaptureEnvironment.read(), run_uri=run, capture_request=request.to_json())
        adapter = PyTorchAdapter(environment) if run else None
        if adapter is not None:
            adapter.install()
        try:
            return self._trained(training)
        finally:
            if adapter is not None:
                adapter.uninstall()

    def _trained(self, training: Training) -> NDArray[np.float64]:
        model, criterion = Net(training.weight), torch.nn.MSELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=training.learning_rate)
        for step, (inputs, targets) in enumerate(zip(training.inputs, training.targets, strict=True)):
            batch, wanted = torch.tensor(inputs), torch.tensor(targets)
            optimizer.zero_grad()
            criterion(model(batch), wanted).backward()
            optimizer.step()
            if step in training.evaluated_after:
                model.eval()
                with torch.no_grad():
                    criterion(model(batch), wanted)
                model.train()
        return model.fc.weight.detach().numpy().copy()
