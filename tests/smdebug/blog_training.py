"""The blog post's training script, smaller: `python stand_ins.py blog_training.py [TORCH]`.

With TORCH, the folder to import PyTorch from, it has the blog's lines for smdebug's hook, which reads its configuration
where SMDEBUG_CONFIG_FILE_PATH says. Without, it has none of them, as a script under Trackside.
"""

from __future__ import annotations

import sys

sys.path += sys.argv[1:]

import torch
from torch import nn, optim


def train(*, epochs: int = 2, is_hooked: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1), nn.Sigmoid())
    criterion = nn.BCELoss()
    optimizer = optim.Adam(model.parameters(), lr=0.001)
    loader = [(torch.randn(6, 4), torch.randint(0, 2, (6,))) for _ in range(12)]
    hook = None
    if is_hooked:
        import smdebug.pytorch as smd

        hook = smd.Hook.create_from_json_file()
        hook.register_module(model)
        hook.register_loss(criterion)
    for _ in range(epochs):
        model.train()
        if hook is not None:
            hook.set_mode(smd.modes.TRAIN)
        for data, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(data).squeeze(), target.float())
            loss.backward()
            optimizer.step()
        model.eval()
        if hook is not None:
            hook.set_mode(smd.modes.EVAL)
        with torch.no_grad():
            for data, target in loader[:3]:
                criterion(model(data).squeeze(), target.float())


train(is_hooked=len(sys.argv) > 1)
