"""Recommenders: RecBole, on a made list of who liked what."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family("recommenders", ("recbole", "setuptools<81", "numpy<2"), imports=("recbole.quick_start", "pandas"))


def _recommend(model: str, seed: int, **settings: Any) -> None:
    """Train one of RecBole's models for three epochs, with its own defaults."""
    from pathlib import Path

    import numpy as np
    from recbole.quick_start import run_recbole

    folder = Path("data") / "shop"
    folder.mkdir(parents=True)
    tastes = np.random.rand(150, 4) @ np.random.rand(4, 100)
    liked = np.argwhere(tastes + 0.3 * np.random.rand(150, 100) > np.quantile(tastes, 0.85))
    rows = [f"{user}\t{item}\t{number}" for number, (user, item) in enumerate(liked)]
    head = "user_id:token\titem_id:token\ttimestamp:float"
    (folder / "shop.inter").write_text("\n".join([head, *rows]) + "\n")
    run_recbole(
        model=model,
        dataset="shop",
        saved=False,
        config_dict={
            "data_path": "data", "epochs": 4, "train_batch_size": 64, "seed": seed, "use_gpu": False,
            "show_progress": False, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "device": "cpu",
            **settings,
        },
    )  # fmt: skip


@FAMILY.program("recbole", data="made: who liked what")
def recbole_bpr(seed: int) -> None:
    """Matrix factorisation with a ranking loss against sampled items."""
    _recommend("BPR", seed)


@FAMILY.program("recbole", data="made: who liked what")
def recbole_autoencoder(seed: int) -> None:
    """A denoising autoencoder of each person's list, with the library's MultiDAE."""
    _recommend("MultiDAE", seed)


@FAMILY.program("recbole", data="made: who liked what")
def recbole_neumf(seed: int) -> None:
    """Neural matrix factorisation, with a loss for each pair."""
    _recommend("NeuMF", seed)
