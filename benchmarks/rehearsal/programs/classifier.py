"""Handwritten digits, a small convolutional network, Adam."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
images = (images - images.mean()) / images.std()
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:1500], order[1500:]
loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=64, shuffle=True)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = functional.relu(self.norm1(self.conv1(x)))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.hidden(self.drop(x.flatten(1))))
        return self.head(x)


model = Network()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(5):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean()
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {accuracy:.4f}")
