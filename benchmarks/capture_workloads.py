"""The three trainings that capture_overhead.py measures on, of the sizes of the design's table."""

import itertools

import torch
from torch import nn
from torch.nn import functional

BATCHES = 8  # ready made, and used in turns


class Mlp(nn.Module):
    """0.15 million parameters in 8 tensors."""

    def __init__(self, *, width=256):
        super().__init__()
        sizes = [64, width, width, width, 10]
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))

    def forward(self, inputs):
        for layer in self.layers[:-1]:
            inputs = functional.relu(layer(inputs))
        return self.layers[-1](inputs)


class Conv(nn.Module):
    """9.7 million parameters in 22 tensors."""

    def __init__(self, *, widest=512):
        super().__init__()
        sizes = [3, *(widest // thinner for thinner in (8, 4, 4, 2, 2, 1, 1, 1, 1))]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(sizes))
        self.pooled = {0, 2, 4, 6, 8}
        self.head = nn.Sequential(nn.Linear(widest, widest), nn.ReLU(), nn.Linear(widest, 100))

    def forward(self, inputs):
        for place, convolution in enumerate(self.convolutions):
            inputs = functional.relu(convolution(inputs))
            if place in self.pooled:
                inputs = functional.max_pool2d(inputs, 2)
        return self.head(inputs.flatten(1))


class Block(nn.Module):
    """Attention and a multi-layer perceptron, 12 tensors."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, inputs):
        batch, length, width = inputs.shape
        parts = self.attention(self.norm_1(inputs)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        inputs = inputs + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return inputs + self.narrower(functional.gelu(self.wider(self.norm_2(inputs))))


class Gpt(nn.Module):
    """12.3 million parameters in 78 tensors; with their gradients 156 tensors, 98 MB."""

    def __init__(self, *, width=384, layers=6, heads=6, words=2048, longest=128):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        inputs = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(inputs))).flatten(0, 1)


class Workload:
    """A training that goes on a stretch of steps at a time; `after_backward(step)` sees every step.

    `is_tiny` keeps the shape of the model and makes it thin, for a trial of a benchmark. `batch_times` makes batches
    larger, for a device that has hardly begun with one of those that suit a CPU. `reads_losses`: the script asks for
    the number of each, as many do; a GPU has to be waited for then.
    """

    def __init__(self, kind, *, device="cpu", is_tiny=False, batch_times=1, reads_losses=True):
        torch.manual_seed(0)
        self.kind, self.device, self.reads_losses = kind, device, reads_losses
        self.criterion = functional.cross_entropy
        if kind == "mlp":
            self.model = Mlp(width=16) if is_tiny else Mlp()
            batch = 144 * batch_times
            batches = [(torch.randn(batch, 64), torch.randint(0, 10, (batch,))) for _ in range(BATCHES)]
        elif kind == "conv":
            self.model = Conv(widest=16) if is_tiny else Conv()
            batch = 4 * batch_times
            batches = [(torch.randn(batch, 3, 32, 32), torch.randint(0, 100, (batch,))) for _ in range(BATCHES)]
        else:
            self.model = Gpt(width=24, layers=2) if is_tiny else Gpt()
            tokens = [torch.randint(0, 2048, (2 * batch_times, 49)) for _ in range(BATCHES)]
            batches = [(text[:, :-1], text[:, 1:].flatten()) for text in tokens]
        self.model.to(device)
        self.batches = [(inputs.to(device), labels.to(device)) for inputs, labels in batches]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.forward = self.model

    def compile(self, backend="inductor"):
        """From now on the model is called as `torch.compile` makes it, in the default mode."""
        self.forward = torch.compile(self.model, backend=backend)

    def run(self, steps, after_backward=None):
        for step in range(steps):
            inputs, labels = self.batches[step % BATCHES]
            self.optimizer.zero_grad()
            loss = self.criterion(self.forward(inputs), labels)
            loss.backward()
            if after_backward is not None:
                after_backward(step, loss)
            self.optimizer.step()
            if self.reads_losses:
                loss.item()
