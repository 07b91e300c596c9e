"""Graphs: nodes, whole graphs and the facts of a knowledge graph."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "graphs", ("torch-geometric", "pykeen", "scikit-learn"), imports=("torch_geometric.nn", "pykeen.pipeline")
)
CLUB, NATIONS = "torch_geometric's KarateClub", "the nations that pykeen ships"


def _club(layer: str, seed: int, *, width: int = 16, rate: float = 0.01, **settings: Any) -> None:
    """Learn the groups of the club's members from one member of each group, all nodes in each batch."""
    import torch
    import torch_geometric.nn
    from torch_geometric.datasets import KarateClub

    graph = KarateClub()[0]
    model = getattr(torch_geometric.nn, layer)(
        in_channels=34, hidden_channels=width, num_layers=2, out_channels=4, dropout=0.5, **settings
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    for _ in range(150):
        optimizer.zero_grad()
        found = model(graph.x, graph.edge_index)
        torch.nn.functional.cross_entropy(found[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimizer.step()


@FAMILY.program("torch-geometric", data=CLUB)
def geometric_gcn(seed: int) -> None:
    """A graph convolution names the groups of a club from four labelled members."""
    _club("GCN", seed)


@FAMILY.program("torch-geometric", data=CLUB)
def geometric_gat(seed: int) -> None:
    """Graph attention names the groups of a club."""
    _club("GAT", seed, heads=4)


@FAMILY.program("torch-geometric", data=CLUB)
def geometric_autoencoder(seed: int) -> None:
    """A graph autoencoder predicts the edges of a club, against sampled ones."""
    import torch
    from torch_geometric.datasets import KarateClub
    from torch_geometric.nn import GAE, GCN

    graph = KarateClub()[0]
    model = GAE(GCN(in_channels=34, hidden_channels=16, num_layers=2, out_channels=8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        codes = model.encode(graph.x, graph.edge_index)
        model.recon_loss(codes, graph.edge_index).backward()
        optimizer.step()


@FAMILY.program("torch-geometric", data="torch_geometric's FakeDataset")
def geometric_graphs(seed: int) -> None:
    """GIN classifies whole graphs by their features."""
    import torch
    from torch_geometric.datasets import FakeDataset
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GIN, global_add_pool

    data = FakeDataset(num_graphs=200, avg_num_nodes=20, num_channels=16, num_classes=3)
    model, head = GIN(16, 32, 2), torch.nn.Linear(32, data.num_classes)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(15):
        for batch in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            found = head(global_add_pool(model(batch.x, batch.edge_index), batch.batch))
            torch.nn.functional.cross_entropy(found, batch.y).backward()
            optimizer.step()


def _facts(model: str, seed: int, *, epochs: int = 20, **settings: Any) -> None:
    from pykeen.pipeline import pipeline

    pipeline(
        dataset="nations", model=model, random_seed=seed, device="cpu",
        training_kwargs={"num_epochs": epochs, "batch_size": 128, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False}, **settings,
    )  # fmt: skip


@FAMILY.program("pykeen", data=NATIONS)
def pykeen_transe(seed: int) -> None:
    """TransE with the pipeline's defaults."""
    _facts("TransE", seed)


@FAMILY.program("pykeen", data=NATIONS)
def pykeen_complex(seed: int) -> None:
    """ComplEx with the pipeline's defaults: embeddings of complex numbers."""
    _facts("ComplEx", seed)


@FAMILY.program("pykeen", data=NATIONS)
def pykeen_conve(seed: int) -> None:
    """ConvE with inverse relations, scored against all entities."""
    _facts("ConvE", seed, epochs=8, dataset_kwargs={"create_inverse_triples": True}, training_loop="lcwa")
