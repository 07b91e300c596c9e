"""Forecasting and Lightning: trainers with callbacks, data modules and series that packages ship."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "forecasting",
    ("lightning", "pytorch-forecasting", "neuralforecast", "darts", "scikit-learn"),
    imports=("lightning", "pandas", "sklearn.datasets", "neuralforecast", "pytorch_forecasting", "darts.models"),
)
AIR = "the air passengers that neuralforecast ships"
WINE = "sklearn's wine"


def _quiet() -> dict[str, Any]:
    return {"enable_progress_bar": False, "logger": False, "enable_checkpointing": False, "accelerator": "cpu"}


def _lightning(module: Any, inputs: Any, targets: Any, *, epochs: int, batch: int = 16, **settings: Any) -> None:
    import lightning
    import torch

    data = torch.utils.data.TensorDataset(inputs, targets)
    train, valid = torch.utils.data.random_split(data, [0.8, 0.2])
    loaders = torch.utils.data.DataLoader(train, batch, shuffle=True), torch.utils.data.DataLoader(valid, 64)
    lightning.Trainer(max_epochs=epochs, enable_model_summary=False, **_quiet(), **settings).fit(module, *loaders)


def _wine() -> tuple[Any, Any]:
    import torch
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import StandardScaler

    inputs, targets = load_wine(return_X_y=True)
    return torch.tensor(StandardScaler().fit_transform(inputs), dtype=torch.float32), torch.tensor(targets)


@FAMILY.program("lightning", data=WINE)
def lightning_classifier(seed: int) -> None:
    """A LightningModule of a few lines classifies wines, with clipping and a schedule each epoch."""
    import lightning
    import torch

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(13, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))

        def training_step(self, batch: Any, _: int) -> Any:
            return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("valid", torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)]

    _lightning(Classifier(), *_wine(), epochs=20, gradient_clip_val=1.0)


@FAMILY.program("lightning", data="sklearn's digits")
def lightning_gan(seed: int) -> None:
    """A generator and a discriminator take turns, with manual optimisation."""
    import lightning
    import torch
    from sklearn.datasets import load_digits

    class Pair(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.generator = torch.nn.Sequential(
                torch.nn.Linear(16, 64), torch.nn.LeakyReLU(0.2), torch.nn.Linear(64, 64), torch.nn.Tanh()
            )
            self.discriminator = torch.nn.Sequential(
                torch.nn.Linear(64, 64), torch.nn.LeakyReLU(0.2), torch.nn.Linear(64, 1)
            )

        def training_step(self, batch: Any, _: int) -> None:
            real = batch[0]
            judge, ones = torch.nn.functional.binary_cross_entropy_with_logits, torch.ones(len(real), 1)
            made = self.generator(torch.randn(len(real), 16))
            generator, discriminator = self.optimizers()
            self.toggle_optimizer(generator)
            loss = judge(self.discriminator(made), ones)
            self.manual_backward(loss)
            generator.step()
            generator.zero_grad()
            self.untoggle_optimizer(generator)
            self.toggle_optimizer(discriminator)
            loss = judge(self.discriminator(real), ones) + judge(self.discriminator(made.detach()), 0 * ones)
            self.manual_backward(loss / 2)
            discriminator.step()
            discriminator.zero_grad()
            self.untoggle_optimizer(discriminator)

        def configure_optimizers(self) -> Any:
            parts = (self.generator, self.discriminator)
            return [torch.optim.Adam(part.parameters(), lr=2e-4, betas=(0.5, 0.999)) for part in parts], []

    images, labels = load_digits(return_X_y=True)
    _lightning(Pair(), torch.tensor(images, dtype=torch.float32) / 8 - 1, torch.tensor(labels), epochs=5, batch=32)


@FAMILY.program("lightning", data="sklearn's digits")
def lightning_finetuning(seed: int) -> None:
    """Lightning's `BackboneFinetuning` unfreezes a backbone at the third epoch."""
    import lightning
    import torch
    from lightning.pytorch.callbacks import BackboneFinetuning
    from sklearn.datasets import load_digits

    class Tuned(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU())
            self.head = torch.nn.Linear(64, 10)

        def training_step(self, batch: Any, _: int) -> Any:
            return torch.nn.functional.cross_entropy(self.head(self.backbone(batch[0])), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(filter(lambda parameter: parameter.requires_grad, self.parameters()), lr=1e-3)

    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32) / 16
    callback = BackboneFinetuning(unfreeze_backbone_at_epoch=2, verbose=False)
    _lightning(Tuned(), inputs, torch.tensor(labels), epochs=6, batch=32, callbacks=[callback])


@FAMILY.program("lightning", data=WINE)
def lightning_averaged(seed: int) -> None:
    """Accumulation over two batches and stochastic weight averaging, on Lightning's own demo module."""
    import lightning
    import torch
    from lightning.pytorch.callbacks import StochasticWeightAveraging
    from lightning.pytorch.demos.boring_classes import BoringModel

    class Described(BoringModel):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    callbacks = [StochasticWeightAveraging(swa_lrs=0.01)]
    trainer = lightning.Trainer(
        max_epochs=6, limit_train_batches=40, accumulate_grad_batches=2, callbacks=callbacks, **_quiet()
    )
    trainer.fit(Described())


@FAMILY.program("lightning", data="text of Lightning's own demo")
def lightning_transformer_demo(seed: int) -> None:
    """Lightning's demo transformer on random numbers as words."""
    import lightning
    import torch
    from lightning.pytorch.demos import Transformer

    class Language(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Transformer(vocab_size=64, ninp=32, nhead=2, nhid=64, nlayers=2)

        def training_step(self, batch: Any, _: int) -> Any:
            inputs, targets = batch
            found = self.model(inputs, targets)
            return torch.nn.functional.nll_loss(found, targets.view(-1))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    words = torch.randint(0, 8, (960, 17)).cumsum(1) % 64
    _lightning(Language(), words[:, :-1], words[:, 1:], epochs=3)


def _sales() -> Any:
    """Return sixteen series with a trend, a season of a week and noise, as a long table."""
    import numpy as np
    import pandas as pd

    time = np.arange(120)
    tables = []
    for number in range(16):
        sold = 10 + number + 0.05 * time + 3 * np.sin(time * 2 * np.pi / 7 + number) + np.random.randn(120) * 0.3
        tables.append(pd.DataFrame({"time": time, "shop": str(number), "sold": sold.astype("float32")}))
    return pd.concat(tables, ignore_index=True)


def _forecasting(model: str, seed: int, *, epochs: int = 2, is_univariate: bool = False, **settings: Any) -> None:
    import lightning
    import pytorch_forecasting as forecasting

    known: dict[str, Any] = (
        {} if is_univariate else {"time_varying_known_reals": ["time"], "static_categoricals": ["shop"]}
    )
    data = forecasting.TimeSeriesDataSet(
        _sales(),
        time_idx="time",
        target="sold",
        group_ids=["shop"],
        max_encoder_length=21,
        max_prediction_length=7,
        time_varying_unknown_reals=["sold"],
        **known,
    )
    network = getattr(forecasting, model).from_dataset(data, learning_rate=3e-3, **settings)
    trainer = lightning.Trainer(
        max_epochs=epochs, limit_train_batches=60, gradient_clip_val=0.1, enable_model_summary=False, **_quiet()
    )
    trainer.fit(network, data.to_dataloader(train=True, batch_size=16, num_workers=0))


@FAMILY.program("pytorch-forecasting", data="made: sixteen seasonal series")
def temporal_fusion_transformer(seed: int) -> None:
    """A temporal fusion transformer forecasts a week of sales."""
    _forecasting("TemporalFusionTransformer", seed, hidden_size=8, attention_head_size=2)


@FAMILY.program("pytorch-forecasting", data="made: sixteen seasonal series")
def forecasting_deepar(seed: int) -> None:
    """DeepAR forecasts a distribution of sales."""
    _forecasting("DeepAR", seed, hidden_size=16)


@FAMILY.program("pytorch-forecasting", data="made: sixteen seasonal series")
def forecasting_nbeats(seed: int) -> None:
    """N-BEATS forecasts sales."""
    _forecasting("NBeats", seed, is_univariate=True, widths=[32, 64])


def _neural(model: str, seed: int, **settings: Any) -> None:
    import neuralforecast.models
    from neuralforecast import NeuralForecast
    from neuralforecast.utils import AirPassengersDF

    quiet = {**_quiet(), "enable_model_summary": False}
    chosen = getattr(neuralforecast.models, model)(
        h=12, input_size=24, max_steps=150, random_seed=seed, **quiet, **settings
    )
    NeuralForecast(models=[chosen], freq="ME").fit(AirPassengersDF)


@FAMILY.program("neuralforecast", data=AIR)
def neuralforecast_nhits(seed: int) -> None:
    """N-HiTS forecasts a year of passengers."""
    _neural("NHITS", seed)


@FAMILY.program("neuralforecast", data=AIR)
def neuralforecast_lstm(seed: int) -> None:
    """An LSTM forecasts a year of passengers."""
    _neural("LSTM", seed, encoder_hidden_size=32)


@FAMILY.program("neuralforecast", data=AIR)
def neuralforecast_patchtst(seed: int) -> None:
    """PatchTST forecasts a year of passengers."""
    _neural("PatchTST", seed, hidden_size=32, encoder_layers=2, linear_hidden_size=64, n_heads=4)


@FAMILY.program("neuralforecast", data=AIR)
def neuralforecast_dlinear(seed: int) -> None:
    """DLinear forecasts a year of passengers."""
    _neural("DLinear", seed)


def _darts(model: str, seed: int, *, epochs: int = 4, **settings: Any) -> None:
    import darts.models
    from darts import TimeSeries
    from darts.dataprocessing.transformers import Scaler

    sales = _sales()
    series = [TimeSeries.from_dataframe(table, "time", "sold").astype("float32") for _, table in sales.groupby("shop")]
    chosen = getattr(darts.models, model)(
        input_chunk_length=21,
        output_chunk_length=7,
        n_epochs=epochs,
        batch_size=32,
        random_state=seed,
        pl_trainer_kwargs=_quiet(),
        **settings,
    )
    chosen.fit(Scaler().fit_transform(series))


@FAMILY.program("darts", data="made: sixteen seasonal series")
def darts_tcn(seed: int) -> None:
    """A temporal convolutional network forecasts sales."""
    _darts("TCNModel", seed)


@FAMILY.program("darts", data="made: sixteen seasonal series")
def darts_tide(seed: int) -> None:
    """TiDE forecasts sales."""
    _darts("TiDEModel", seed, hidden_size=32)


@FAMILY.program("darts", data="made: sixteen seasonal series")
def darts_nhits(seed: int) -> None:
    """N-HiTS of darts forecasts sales."""
    _darts("NHiTSModel", seed, num_stacks=2, layer_widths=32)
