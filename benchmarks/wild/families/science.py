"""Differential equations and operators."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family("science", ("deepxde", "torchdiffeq", "neuraloperator", "scikit-learn"), imports=("torchdiffeq",))


@FAMILY.program("torchdiffeq", data="made: a spiral")
def neural_ode_spiral(seed: int) -> None:
    """A neural differential equation follows a spiral, by the adjoint method, as in the library's demo."""
    import torch
    from torchdiffeq import odeint, odeint_adjoint

    class Change(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(2, 50), torch.nn.Tanh(), torch.nn.Linear(50, 2))
            for layer in (self.layers[0], self.layers[2]):
                torch.nn.init.normal_(layer.weight, std=0.1)
                torch.nn.init.constant_(layer.bias, 0)

        def forward(self, _: Any, place: Any) -> Any:
            return self.layers(place**3)

    times, turn = torch.linspace(0, 25, 500), torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    with torch.no_grad():
        path = odeint(lambda _, place: place**3 @ turn, torch.tensor([[2.0, 0.0]]), times)
    model = Change()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _ in range(100):
        start = torch.randint(0, 490, (20,))
        wanted = torch.stack([path[start + step] for step in range(10)])
        optimizer.zero_grad()
        found = odeint_adjoint(model, path[start], times[:10], method="rk4")
        (found - wanted).abs().mean().backward()
        optimizer.step()


@FAMILY.program("neuraloperator", data="made: smooth functions and their integrals")
def fourier_operator(seed: int) -> None:
    """A Fourier neural operator learns to integrate, with the library's trainer and its Sobolev loss."""
    import torch
    from neuralop import LpLoss, Trainer
    from neuralop.models import FNO

    grid = torch.linspace(0, 1, 32)
    waves = torch.stack([torch.sin(6.28 * number * grid) for number in range(1, 5)])
    functions = torch.randn(320, 4) @ waves
    rows = [{"x": one[None], "y": one.cumsum(0)[None] / 32} for one in functions]
    loader = torch.utils.data.DataLoader(rows, 16, shuffle=True)
    model = FNO(n_modes=(8,), hidden_channels=16, in_channels=1, out_channels=1, n_layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    Trainer(model=model, n_epochs=6, device="cpu", verbose=False).train(
        loader, {}, optimizer=optimizer, scheduler=schedule, training_loss=LpLoss(d=1), regularizer=None
    )


@FAMILY.program("deepxde", data="made: points of an interval")
def physics_informed_poisson(seed: int) -> None:
    """A physics-informed network solves Poisson's equation on an interval."""
    import deepxde
    import numpy as np
    import torch

    def equation(x: Any, y: Any) -> Any:
        return -deepxde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)

    line = deepxde.geometry.Interval(-1, 1)
    border = deepxde.icbc.DirichletBC(line, lambda _: 0, lambda _, on_boundary: on_boundary)
    data = deepxde.data.PDE(line, equation, border, 16, 2, solution=lambda x: np.sin(np.pi * x), num_test=100)
    model = deepxde.Model(data, deepxde.nn.FNN([1, 32, 32, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3)
    model.train(iterations=300, display_every=100)
