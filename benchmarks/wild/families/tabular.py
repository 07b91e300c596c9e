"""Tables: libraries with a `fit` of scikit-learn's manner."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "tabular",
    ("skorch", "pytorch-tabnet", "pytorch-widedeep", "scikit-learn", "pycox", "torchtuples"),
    imports=("sklearn.datasets", "pandas", "pytorch_widedeep", "pycox.models", "skorch"),
)
DIGITS, CANCER, DIABETES = "sklearn's digits", "sklearn's breast cancer", "sklearn's diabetes"


def _scaled(name: str) -> tuple[Any, Any]:
    import sklearn.datasets
    from sklearn.preprocessing import StandardScaler

    inputs, targets = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return StandardScaler().fit_transform(inputs).astype("float32"), targets


@FAMILY.program("skorch", data=DIGITS)
def skorch_classifier(seed: int) -> None:
    """skorch's classifier with its default optimizer, rate and validation split."""
    import torch
    from skorch import NeuralNetClassifier

    inputs, targets = _scaled("digits")
    layers = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 10)]
    NeuralNetClassifier(
        torch.nn.Sequential(*layers), criterion=torch.nn.CrossEntropyLoss, max_epochs=12, verbose=0
    ).fit(inputs, targets.astype("int64"))


@FAMILY.program("skorch", data=DIABETES)
def skorch_regressor(seed: int) -> None:
    """skorch's regressor with early stopping and a smaller rate where nothing is gained."""
    import torch
    from skorch import NeuralNetRegressor
    from skorch.callbacks import EarlyStopping, LRScheduler

    inputs, targets = _scaled("diabetes")
    targets = ((targets - targets.mean()) / targets.std()).astype("float32")[:, None]
    callbacks = [EarlyStopping(patience=8), LRScheduler("ReduceLROnPlateau", patience=3)]
    layers = [torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)]
    NeuralNetRegressor(
        torch.nn.Sequential(*layers), optimizer=torch.optim.Adam, lr=3e-3, max_epochs=40, batch_size=32,
        callbacks=callbacks, verbose=0,
    ).fit(inputs, targets)  # fmt: skip


@FAMILY.program("pytorch-tabnet", data=CANCER)
def tabnet_classifier(seed: int) -> None:
    """TabNet classifies tumours, on smaller batches than its default."""
    from pytorch_tabnet.tab_model import TabNetClassifier

    inputs, targets = _scaled("breast_cancer")
    TabNetClassifier(seed=seed, verbose=0, device_name="cpu").fit(
        inputs[:450],
        targets[:450],
        [(inputs[450:], targets[450:])],
        max_epochs=15,
        batch_size=64,
        virtual_batch_size=32,
    )


@FAMILY.program("pytorch-tabnet", data=DIABETES)
def tabnet_pretrainer(seed: int) -> None:
    """TabNet's pretrainer fills in hidden columns."""
    from pytorch_tabnet.pretraining import TabNetPretrainer

    inputs, _ = _scaled("diabetes")
    TabNetPretrainer(seed=seed, verbose=0, device_name="cpu").fit(
        inputs, max_epochs=20, batch_size=64, virtual_batch_size=32
    )


def _wide_and_deep(part: str, columns: str, seed: int, **settings: Any) -> None:
    import pandas as pd
    import pytorch_widedeep.models
    from pytorch_widedeep import Trainer
    from pytorch_widedeep.models import WideDeep
    from pytorch_widedeep.preprocessing import TabPreprocessor

    inputs, targets = _scaled("breast_cancer")
    table = pd.DataFrame(inputs, columns=[f"c{number}" for number in range(inputs.shape[1])])
    prepare = TabPreprocessor(continuous_cols=list(table.columns), **({"with_attention": True} if columns else {}))
    found = prepare.fit_transform(table)
    deep = getattr(pytorch_widedeep.models, part)(
        column_idx=prepare.column_idx, continuous_cols=prepare.continuous_cols, **settings
    )
    Trainer(WideDeep(deeptabular=deep), objective="binary", verbose=0, seed=seed, num_workers=0).fit(
        X_tab=found, target=targets, n_epochs=5, batch_size=32, val_split=0.2
    )


@FAMILY.program("pytorch-widedeep", data=CANCER)
def widedeep_mlp(seed: int) -> None:
    """A tabular MLP of pytorch-widedeep classifies tumours."""
    _wide_and_deep("TabMlp", "", seed, mlp_hidden_dims=[64, 32])


@FAMILY.program("pytorch-widedeep", data=CANCER)
def widedeep_transformer(seed: int) -> None:
    """A tabular FT-Transformer of pytorch-widedeep classifies tumours."""
    _wide_and_deep("FTTransformer", "attention", seed, input_dim=16, n_blocks=2, n_heads=2)


def _durations(count: int = 800) -> tuple[Any, Any, Any]:
    import numpy as np

    inputs = np.random.randn(count, 6).astype("float32")
    times = np.random.exponential(np.exp(inputs[:, 0] - 0.5 * inputs[:, 1])).astype("float32")
    ends = np.random.exponential(3.0, count).astype("float32")
    return inputs, np.minimum(times, ends), (times <= ends).astype("float32")


@FAMILY.program("pycox", data="made: exponential survival times")
def pycox_cox(seed: int) -> None:
    """A Cox proportional hazards network."""
    import torchtuples
    from pycox.models import CoxPH

    inputs, times, events = _durations()
    network = torchtuples.practical.MLPVanilla(6, [32, 32], 1, True, 0.1, output_bias=False)
    CoxPH(network, torchtuples.optim.Adam(0.01)).fit(
        inputs[:600],
        (times[:600], events[:600]),
        64,
        15,
        verbose=False,
        val_data=(inputs[600:], (times[600:], events[600:])),
    )


@FAMILY.program("pycox", data="made: exponential survival times")
def pycox_deep_hit(seed: int) -> None:
    """DeepHit on discrete times."""
    import torchtuples
    from pycox.models import DeepHitSingle

    inputs, times, events = _durations()
    cut = DeepHitSingle.label_transform(10)
    found = cut.fit_transform(times, events)
    network = torchtuples.practical.MLPVanilla(6, [32, 32], cut.out_features, True, 0.1)
    DeepHitSingle(network, torchtuples.optim.Adam(0.01), duration_index=cut.cuts).fit(
        inputs, found, 64, 12, verbose=False
    )
