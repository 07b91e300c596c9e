"""Characters of a source text, a small transformer, AdamW with warm-up, clipped gradients."""

import argparse
import inspect

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
text = inspect.getsource(argparse)
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])
LENGTH, WIDTH, HEADS, BATCH = 32, 48, 4, 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(len(x), -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        x = x + self.drop(self.out((weights @ v).transpose(1, 2).reshape(x.shape)))
        return x + self.drop(self.down(functional.relu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(letters), WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(letters))

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def get_batch():
    starts = torch.randint(0, len(data) - LENGTH - 1, (BATCH,))
    x = torch.stack([data[i : i + LENGTH] for i in starts])
    y = torch.stack([data[i + 1 : i + LENGTH + 1] for i in starts])
    return x, y


model = Transformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)

model.train()
for step in range(200):
    x, y = get_batch()
    logits = model(x)
    loss = functional.cross_entropy(logits.reshape(-1, len(letters)), y.reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 50 == 0:
        print(step, f"{loss.item():.4f}")
