"""Speech: SpeechBrain's Brain on made tones."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family("speech", ("speechbrain",), imports=("speechbrain",))


def _tones(count: int = 480) -> list[tuple[Any, Any]]:
    import torch

    kinds = torch.randint(0, 6, (count,))
    time = torch.arange(400) / 400
    sounds = torch.sin(2 * 3.14159 * (kinds[:, None] + 2) * 5 * time) + 0.3 * torch.randn(count, 400)
    return list(zip(sounds, kinds, strict=True))


@FAMILY.program("speechbrain", data="made: noisy tones")
def speechbrain_classifier(seed: int) -> None:
    """A Brain of a few lines names tones with the library's own layers."""
    import speechbrain
    import torch
    from speechbrain.nnet.losses import nll_loss

    class Listener(speechbrain.Brain):
        def compute_forward(self, batch: Any, stage: Any) -> Any:
            return self.modules.model(batch[0]).log_softmax(-1)

        def compute_objectives(self, predictions: Any, batch: Any, stage: Any) -> Any:
            return nll_loss(predictions[:, None], batch[1][:, None])

    model = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 400)), torch.nn.Conv1d(1, 16, 25, 5), torch.nn.LeakyReLU(),
        torch.nn.Conv1d(16, 16, 9, 4), torch.nn.LeakyReLU(), torch.nn.AdaptiveMaxPool1d(1), torch.nn.Flatten(),
        torch.nn.Linear(16, 6),
    )  # fmt: skip
    brain = Listener(
        {"model": model}, lambda parameters: torch.optim.Adam(parameters, 1e-3), run_opts={"device": "cpu"}
    )
    brain.fit(
        range(6), _tones(), valid_set=_tones(96), progressbar=False,
        train_loader_kwargs={"batch_size": 16}, valid_loader_kwargs={"batch_size": 16},
    )  # fmt: skip


@FAMILY.program("speechbrain", data="made: noisy tones")
def speechbrain_recurrent(seed: int) -> None:
    """A Brain with the library's GRU and CTC loss writes down the order of two tones."""
    import speechbrain
    import torch
    from speechbrain.nnet.losses import ctc_loss
    from speechbrain.nnet.RNN import GRU

    class Writer(speechbrain.Brain):
        def compute_forward(self, batch: Any, stage: Any) -> Any:
            hidden, _ = self.modules.encoder(batch[0].unflatten(1, (40, 20)))
            return self.modules.head(hidden).log_softmax(-1)

        def compute_objectives(self, predictions: Any, batch: Any, stage: Any) -> Any:
            whole = torch.ones(len(predictions))
            return ctc_loss(predictions, batch[1], whole, whole, blank_index=0)

    tones = _tones(960)
    rows = [
        (torch.cat([first, second]), torch.stack([a + 1, b + 1]))
        for (first, a), (second, b) in zip(tones[::2], tones[1::2], strict=True)
    ]
    modules = {"encoder": GRU(32, input_shape=(None, None, 20)), "head": torch.nn.Linear(32, 7)}
    brain = Writer(modules, lambda parameters: torch.optim.Adam(parameters, 3e-3), run_opts={"device": "cpu"})
    brain.fit(range(5), rows, progressbar=False, train_loader_kwargs={"batch_size": 16})
