"""Images: torchvision, timm, and libraries of losses, layers and whole tasks, with random weights."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.program import Family

FAMILY = Family(
    "vision",
    (
        "torchvision==0.28.0",
        "timm",
        "segmentation-models-pytorch",
        "kornia",
        "monai",
        "denoising-diffusion-pytorch",
        "vector-quantize-pytorch",
        "x-transformers",
        "pytorch-metric-learning",
        "scikit-learn",
        "ultralytics",
    ),
    imports=(
        "torchvision",
        "timm",
        "sklearn.datasets",
        "segmentation_models_pytorch",
        "kornia.augmentation",
        "monai.networks.nets",
    ),
)
DIGITS = "sklearn's digits"
FAKE = "torchvision's FakeData"


def _digits(pixels: int = 8, channels: int = 1) -> tuple[Any, Any]:
    """Return the images of digits, between -1 and 1, and their labels, in a random order."""
    import torch
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    images = torch.nn.functional.interpolate(images, size=pixels).repeat(1, channels, 1, 1)
    order = torch.randperm(len(images))
    return images[order], torch.tensor(labels)[order]


def _loader(*columns: Any, batch: int = 32) -> Any:
    import torch

    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*columns), batch_size=batch, shuffle=True)


def _classify(model: Any, images: Any, labels: Any, *, steps: int, batch: int = 32, rate: float = 1e-3) -> None:
    """Train as a tutorial does: AdamW, cross-entropy, an evaluation after each epoch."""
    import torch

    cut = len(images) * 4 // 5
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    taken = 0
    while taken < steps:
        model.train()
        for inputs, targets in _loader(images[:cut], labels[:cut], batch=batch):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            taken += 1
            if taken == steps:
                break
        model.eval()
        with torch.no_grad():
            for inputs, targets in _loader(images[cut:], labels[cut:], batch=128):
                torch.nn.functional.cross_entropy(model(inputs), targets)


@FAMILY.program("torchvision", data=DIGITS)
def torchvision_resnet18(seed: int) -> None:
    """ResNet-18 classifies digits of 16 pixels."""
    from torchvision.models import resnet18

    images, labels = _digits(16, 3)
    _classify(resnet18(num_classes=10), images[:800], labels[:800], steps=60, batch=16)


@FAMILY.program("torchvision", data=DIGITS)
def torchvision_mobilenet(seed: int) -> None:
    """MobileNet V3 classifies digits of 32 pixels, its batch norms with the library's slow averages."""
    from torchvision.models import mobilenet_v3_small

    images, labels = _digits(32, 3)
    _classify(mobilenet_v3_small(num_classes=10), images[:800], labels[:800], steps=100, batch=16)


@FAMILY.program("torchvision", data=DIGITS)
def torchvision_frozen_backbone(seed: int) -> None:
    """Only the head of a SqueezeNet learns, as in the tutorial on transfer learning."""
    import torch
    from torchvision.models import squeezenet1_1

    model = squeezenet1_1(num_classes=10)
    for parameter in model.features.parameters():
        parameter.requires_grad = False
    images, labels = _digits(32, 3)
    optimizer = torch.optim.SGD(model.classifier.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=40, gamma=0.1)
    taken = 0
    while taken < 120:
        for inputs, targets in _loader(images, labels, batch=16):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            schedule.step()
            taken += 1
            if taken == 120:
                break


@FAMILY.program("timm", data=DIGITS)
def timm_vit(seed: int) -> None:
    """A ViT of timm with its AdamW groups, cosine schedule with warm-up and label smoothing."""
    _timm("vit_tiny_patch16_224", {"img_size": 16, "patch_size": 4, "embed_dim": 48, "depth": 3}, 16, channels=3)


@FAMILY.program("timm", data=DIGITS)
def timm_convnext(seed: int) -> None:
    """A ConvNeXt of timm, its layer scale at 1e-6."""
    _timm("convnext_atto", {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64), "ls_init_value": 1e-6}, 32, channels=3)


@FAMILY.program("timm", data=DIGITS)
def timm_efficientnet(seed: int) -> None:
    """An EfficientNet of timm with dropped paths and an average of its weights."""
    _timm("efficientnet_lite0", {"drop_path_rate": 0.1}, 32, channels=3, steps=60, has_average=True)


def _timm(
    name: str, sizes: dict[str, Any], pixels: int, *, channels: int, steps: int = 150, has_average: bool = False
) -> None:
    import timm
    import torch
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3

    model = timm.create_model(name, num_classes=10, **sizes)
    average = ModelEmaV3(model, decay=0.99) if has_average else None
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=steps, warmup_t=10, warmup_lr_init=1e-6, t_in_epochs=False)
    loss = LabelSmoothingCrossEntropy()
    images, labels = _digits(pixels, channels)
    taken = 0
    while taken < steps:
        for inputs, targets in _loader(images, labels, batch=16):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            taken += 1
            schedule.step_update(taken)
            if average is not None:
                average.update(model, step=taken)
            if taken == steps:
                break


@FAMILY.program("segmentation-models-pytorch", data=DIGITS)
def segmentation_unet(seed: int) -> None:
    """A U-Net finds the ink of digits with Dice loss."""
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, in_channels=1, classes=1, decoder_channels=(32, 16, 16, 8, 8))
    _segment(model, smp.losses.DiceLoss("binary"))


@FAMILY.program("segmentation-models-pytorch", data=DIGITS)
def segmentation_fpn(seed: int) -> None:
    """A feature pyramid finds the ink of digits with focal loss."""
    import segmentation_models_pytorch as smp

    model = smp.FPN("mobilenet_v2", encoder_weights=None, in_channels=1, classes=1)
    _segment(model, smp.losses.FocalLoss("binary"))


def _segment(model: Any, loss: Any) -> None:
    import torch

    images, _ = _digits(32)
    images = images[:400]
    masks = (images > 0).float()
    images = images + 0.5 * torch.randn_like(images)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        for inputs, targets in _loader(images, masks, batch=8):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()


@FAMILY.program("kornia", data=DIGITS)
def kornia_augmented(seed: int) -> None:
    """A small network classifies digits that kornia's layers turn and shift."""
    import torch
    from kornia import augmentation

    images, labels = _digits(16)
    model = torch.nn.Sequential(
        augmentation.RandomAffine(15.0, translate=(0.1, 0.1), p=0.7),
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )
    _classify(model, images, labels, steps=150)


@FAMILY.program("kornia", data=DIGITS)
def kornia_registration(seed: int) -> None:
    """kornia's registration finds the shift between two images, one parameter group and a pyramid of sizes."""
    from kornia.geometry.transform import ImageRegistrator

    images, _ = _digits(64)
    moved = images[:1].roll((3, 2), (2, 3))
    ImageRegistrator("similarity", num_iterations=60, lr=1e-3).register(images[:1], moved)


@FAMILY.program("monai", data=DIGITS)
def monai_unet(seed: int) -> None:
    """MONAI's U-Net finds the ink of digits with Dice and cross-entropy."""
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=2, in_channels=1, out_channels=1, channels=(8, 16, 32), strides=(2, 2))
    _segment(model, DiceCELoss(sigmoid=True))


@FAMILY.program("monai", data=DIGITS)
def monai_densenet(seed: int) -> None:
    """MONAI's DenseNet classifies digits."""
    from monai.networks.nets import DenseNet

    images, labels = _digits(32)
    model = DenseNet(spatial_dims=2, in_channels=1, out_channels=10, block_config=(2, 2), init_features=16)
    _classify(model, images[:800], labels[:800], steps=80, batch=16)


@FAMILY.program("denoising-diffusion-pytorch", data=DIGITS)
def diffusion_unet(seed: int) -> None:
    """A small U-Net learns to remove the noise of a diffusion."""
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    images, _ = _digits(16)
    model = GaussianDiffusion(Unet(dim=16, dim_mults=(1, 2), channels=1), image_size=16, timesteps=100)
    _fit_loss(model, (images[:640] + 1) / 2, steps=80, batch=8)


@FAMILY.program("denoising-diffusion-pytorch", data="sine waves")
def diffusion_waves(seed: int) -> None:
    """A one-dimensional U-Net learns the diffusion of sine waves."""
    import torch
    from denoising_diffusion_pytorch import GaussianDiffusion1D, Unet1D

    phase = torch.rand(640, 1, 1) * 6.28
    waves = torch.sin(torch.arange(32) / 4 + phase) / 2 + 0.5
    model = GaussianDiffusion1D(Unet1D(dim=16, dim_mults=(1, 2), channels=1), seq_length=32, timesteps=100)
    _fit_loss(model, waves, steps=100, batch=16)


def _fit_loss(model: Any, inputs: Any, *, steps: int, batch: int, rate: float = 1e-3) -> None:
    """Train a model that returns its own loss."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    taken = 0
    while taken < steps:
        for (chosen,) in _loader(inputs, batch=batch):
            optimizer.zero_grad()
            model(chosen).backward()
            optimizer.step()
            taken += 1
            if taken == steps:
                break


@FAMILY.program("vector-quantize-pytorch", data=DIGITS)
def vector_quantized_autoencoder(seed: int) -> None:
    """An autoencoder with a codebook that follows by moving averages rebuilds digits."""
    from vector_quantize_pytorch import VectorQuantize

    _quantized(VectorQuantize(dim=16, codebook_size=64, accept_image_fmap=True, commitment_weight=0.25))


@FAMILY.program("vector-quantize-pytorch", data=DIGITS)
def finite_scalar_autoencoder(seed: int) -> None:
    """An autoencoder with finite scalar quantisation rebuilds digits."""
    from vector_quantize_pytorch import FSQ

    _quantized(FSQ(levels=[8, 5, 5], dim=16))


def _quantized(quantizer: Any) -> None:
    import torch

    encoder = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 4, 2, 1), torch.nn.GELU(), torch.nn.Conv2d(16, 16, 3, 1, 1))
    decoder = torch.nn.Sequential(torch.nn.ConvTranspose2d(16, 16, 4, 2, 1), torch.nn.GELU(), torch.nn.Conv2d(16, 1, 1))
    model = torch.nn.ModuleList([encoder, quantizer, decoder])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    images, _ = _digits(16)
    for _ in range(5):
        for (inputs,) in _loader(images, batch=32):
            codes, *rest = quantizer(encoder(inputs))
            commitment = rest[1].sum() if len(rest) > 1 else 0.0
            optimizer.zero_grad()
            ((decoder(codes) - inputs).abs().mean() + commitment).backward()
            optimizer.step()


def _bytes(length: int, count: int) -> Any:
    from pydoc_data import topics

    import torch

    text = " ".join(topics.topics[name] for name in sorted(topics.topics)).encode("ascii", "ignore")
    return torch.tensor(list(text[: count * length])).reshape(count, length)


@FAMILY.program("x-transformers", data="text of Python's own documentation")
def x_transformer_decoder(seed: int) -> None:
    """A decoder with rotary positions and normalised queries learns the next byte."""
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=64, depth=3, heads=4, rotary_pos_emb=True, attn_qk_norm=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=256, max_seq_len=64, attn_layers=layers))
    _fit_loss(model, _bytes(64, 800), steps=120, batch=16, rate=3e-4)


@FAMILY.program("x-transformers", data=DIGITS)
def x_transformer_vision(seed: int) -> None:
    """A vision transformer with gated feed-forward layers classifies digits."""
    from x_transformers import Encoder, ViTransformerWrapper

    images, labels = _digits(16)
    layers = Encoder(dim=48, depth=3, heads=4, ff_glu=True)
    model = ViTransformerWrapper(image_size=16, patch_size=4, channels=1, num_classes=10, attn_layers=layers)
    _classify(model, images, labels, steps=120)


@FAMILY.program("pytorch-metric-learning", data=DIGITS)
def metric_triplets(seed: int) -> None:
    """An embedding of digits learns from hard triplets of each batch."""
    from pytorch_metric_learning import losses, miners

    miner, loss = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
    _embed(lambda found, labels: loss(found, labels, miner(found, labels)))


@FAMILY.program("pytorch-metric-learning", data=DIGITS)
def metric_contrastive(seed: int) -> None:
    """An embedding of digits learns with the supervised contrastive loss."""
    from pytorch_metric_learning import losses

    _embed(losses.SupConLoss())


def _embed(loss: Any) -> None:
    import torch

    images, labels = _digits()
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        for inputs, targets in _loader(images, labels):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()


@FAMILY.program("ultralytics", data="sklearn's digits as files")
def yolo_classification(seed: int) -> None:
    """YOLO's trainer, with its augmentations, classifies digits."""
    from pathlib import Path

    from PIL import Image
    from ultralytics import YOLO

    images, labels = _digits(32, 3)
    for place, (image, label) in enumerate(zip(images[:300], labels[:300], strict=True)):
        folder = Path("digits") / ("train" if place < 240 else "val") / str(int(label))
        folder.mkdir(parents=True, exist_ok=True)
        pixels = ((image + 1) * 127).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(folder / f"{place}.png")
    YOLO("yolov8n-cls.yaml").train(
        data=str(Path("digits").absolute()), epochs=4, imgsz=32, batch=16, workers=0, seed=seed, device="cpu",
        plots=False, verbose=False,
    )  # fmt: skip
