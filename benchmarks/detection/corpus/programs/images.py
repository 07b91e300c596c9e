"""Convolutional networks and autoencoders on images of digits."""

from functools import partial

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.data import Data, reconstruction
from benchmarks.detection.corpus.models import Autoencoder, Classifier, ConvNet, ResidualNet, TiedAutoencoder, mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, cosine, momentum, one_cycle
from benchmarks.detection.corpus.program import REPORT, TUNE
from benchmarks.detection.corpus.registry import recipe
from benchmarks.detection.corpus.supervised import Recipe, accuracy, explained, regression


@recipe(REPORT, "digits", "CNN, two convolutions", at_least=0.9, chance=0.1)
def cnn_plain() -> Recipe:
    """Two convolutions, Adam."""
    return Recipe(data.digit_images, ConvNet, adam, 2e-3, 7)


@recipe(
    TUNE,
    data="digits",
    model="CNN, batch normalisation",
    at_least=0.9,
    chance=0.1,
    odd="pixels from 0 to 16, which batch normalisation makes up for",
)
def cnn_batchnorm() -> Recipe:
    """Batch normalisation after each convolution, SGD with momentum."""
    return Recipe(
        data=lambda seed: data.digit_images(seed).with_inputs(lambda images: 16 * images),
        model=lambda: ConvNet(norm=True),
        optimizer=momentum,
        rate=0.02,
        epochs=6,
    )


@recipe(TUNE, "digits", "CNN, three convolutions, dropout", at_least=0.9, chance=0.1)
def cnn_dropout() -> Recipe:
    """Three convolutions and dropout before the output."""
    return Recipe(
        data=data.digit_images,
        model=lambda: ConvNet(channels=(1, 8, 16, 16), dropout=0.4),
        optimizer=adam,
        rate=3e-3,
        epochs=8,
        criterion=functional.cross_entropy,
    )


@recipe(REPORT, "digits", "residual CNN of 4 blocks", at_least=0.88, chance=0.1)
def resnet_small() -> Recipe:
    """Residual blocks with batch normalisation, one-cycle schedule."""
    return Recipe(data.digit_images, ResidualNet, momentum, 0.05, 7, schedule=one_cycle(0.1))


@recipe(REPORT, "digits", "residual CNN of 8 blocks", at_least=0.88, chance=0.1, odd="18 layers, narrow")
def resnet_deep() -> Recipe:
    """A deep residual network."""
    return Recipe(
        data=data.digit_images,
        model=lambda: ResidualNet(channels=8, blocks=8),
        optimizer=adamw,
        rate=0.01,
        epochs=6,
        schedule=cosine,
        criterion=nn.CrossEntropyLoss(label_smoothing=0.05),
    )


def _depthwise() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU6()]
    for _ in range(2):
        layers += [nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.BatchNorm2d(24), nn.ReLU6(), nn.Conv2d(24, 24, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 10))


@recipe(REPORT, "digits", "CNN, depthwise separable", at_least=0.88, chance=0.1)
def cnn_depthwise() -> Recipe:
    """Depthwise convolutions with ReLU6."""
    return Recipe(data.digit_images, _depthwise, adam, 5e-3, 6)


class _ThreeHeads(nn.Module):
    """One trunk; which digit, odd or even, how much ink."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = mlp(64, 64, 48, activation=nn.GELU)
        self.digit, self.parity, self.ink = nn.Linear(48, 10), nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, rows: Tensor) -> Tensor:
        features = functional.gelu(self.trunk(rows))
        return torch.cat([self.digit(features), self.parity(features), self.ink(features)], 1)


def _three_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    digit = functional.cross_entropy(outputs[:, :10], targets[:, 0].long())
    parity = functional.binary_cross_entropy_with_logits(outputs[:, 10], targets[:, 0] % 2)
    return digit + 0.5 * parity + functional.mse_loss(outputs[:, 11], targets[:, 1])


def _with_ink(seed: int) -> Data:
    found = data.digits(seed)
    return Data(
        *(
            (inputs, torch.stack([labels.float(), inputs.mean(1) * 4 - 1], 1))
            for inputs, labels in (found.train, found.valid, found.test)
        )
    )


@recipe(REPORT, "digits", "MLP trunk, three heads", at_least=0.88, chance=0.1, odd="three losses of two kinds")
def digits_three_tasks() -> Recipe:
    """Three tasks share a trunk."""
    return Recipe(
        data=_with_ink,
        model=_ThreeHeads,
        optimizer=adam,
        rate=2e-3,
        epochs=10,
        criterion=_three_losses,
        metric=lambda outputs, targets: accuracy(outputs[:, :10], targets[:, 0].long()),
    )


@recipe(TUNE, "digits", "autoencoder 64-32-12-32-64", at_least=0.5)
def autoencoder_plain() -> Recipe:
    """Digits squeezed through twelve numbers."""
    return regression(reconstruction(data.digits), lambda: Autoencoder(64, 32, 12), adam, 3e-3, 11)


def _blurred(step: int, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return inputs + 0.2 * torch.randn_like(inputs), targets


@recipe(REPORT, "digits", "denoising autoencoder 64-48-24-48-64", at_least=0.5, odd="noise added at each step")
def autoencoder_denoising() -> Recipe:
    """Noise is taken out again."""
    return regression(
        data=reconstruction(data.digits),
        model=lambda: Autoencoder(64, 48, 24, activation=nn.ELU),
        optimizer=adam,
        rate=2e-3,
        epochs=10,
        prepare=_blurred,
    )


@recipe(REPORT, "digits", "autoencoder 64-24, tied weights", at_least=0.5, odd="one matrix used twice")
def autoencoder_tied() -> Recipe:
    """The decoder is the encoder's transpose."""
    return regression(reconstruction(data.digits), lambda: TiedAutoencoder(64, 24), momentum, 0.5, 10)


@recipe(REPORT, "breast cancer", "autoencoder 30-16-6-16-30, tanh", at_least=0.5)
def autoencoder_cancer() -> Recipe:
    """Measurements of tumours squeezed through six numbers."""
    return regression(
        data=reconstruction(data.breast_cancer),
        model=lambda: Autoencoder(30, 16, 6, activation=nn.Tanh),
        optimizer=adam,
        rate=5e-3,
        epochs=35,
        criterion=nn.SmoothL1Loss(),
    )


def _sparse_code(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.mse_loss(outputs[:, :64], targets) + 1e-3 * outputs[:, 64:].abs().mean()


class _SparseCoder(nn.Module):
    """A wide code of which few numbers are not 0."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, rows: Tensor) -> Tensor:
        code = functional.relu(self.encoder(rows) - 0.1)
        return torch.cat([self.decoder(code), code], 1)


@recipe(REPORT, "digits", "sparse autoencoder 64-96-64", at_least=0.5, odd="most activations are 0 on purpose")
def autoencoder_sparse() -> Recipe:
    """A sparse autoencoder: an L1 penalty on what the ReLU lets through."""
    return Recipe(
        data=reconstruction(data.digits),
        model=_SparseCoder,
        optimizer=adam,
        rate=3e-3,
        epochs=10,
        criterion=_sparse_code,
        metric=lambda outputs, targets: explained(outputs[:, :64], targets),
    )


class _UNet(nn.Module):
    """Down, up, and a bridge."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 12, 3, padding=1), nn.Conv2d(12, 24, 3, padding=1, stride=2)
        self.up = nn.ConvTranspose2d(24, 12, 2, stride=2)
        self.output = nn.Conv2d(24, 1, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        fine = functional.relu(self.down1(images))
        coarse = functional.relu(self.down2(fine))
        logits: Tensor = self.output(torch.cat([fine, functional.relu(self.up(coarse))], 1))
        return logits


def _strokes(seed: int) -> Data:
    """Which pixels belong to the stroke, told from a noisy image."""
    random = torch.Generator().manual_seed(seed)
    found = reconstruction(data.digit_images)(seed).with_targets(lambda images: (images > 0.5).float())
    return found.with_inputs(lambda images: images + 0.3 * torch.randn(images.shape, generator=random))


@recipe(REPORT, "digits", "small U-Net", at_least=0.85, chance=0.7)
def unet_strokes() -> Recipe:
    """Segmentation: binary cross entropy at each pixel."""
    return Recipe(
        data=_strokes,
        model=_UNet,
        optimizer=adamw,
        rate=4e-3,
        epochs=6,
        criterion=nn.BCEWithLogitsLoss(),
        metric=lambda outputs, targets: float(((outputs > 0) == (targets > 0.5)).float().mean()),
    )


@recipe(REPORT, "digits", "CNN encoder and head, weight decay", at_least=0.88, chance=0.1)
def cnn_decayed() -> Recipe:
    """A strided convolutional encoder, weight decay, a cosine."""
    return Recipe(
        data=data.digit_images,
        model=lambda: Classifier(
            nn.Sequential(
                nn.Conv2d(1, 12, 3, stride=2, padding=1),
                nn.GroupNorm(3, 12),
                nn.ReLU(),
                nn.Conv2d(12, 24, 3, stride=2, padding=1),
                nn.GroupNorm(3, 24),
                nn.ReLU(),
                nn.Flatten(),
            ),
            nn.Linear(96, 10),
        ),
        optimizer=partial(optim.SGD, momentum=0.9, weight_decay=5e-4),
        rate=0.05,
        epochs=9,
        schedule=cosine,
    )
