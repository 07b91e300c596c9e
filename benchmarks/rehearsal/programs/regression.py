"""A table of patients, a network with a gate, stochastic gradient descent with momentum."""

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

torch.manual_seed(0)
table = load_diabetes(scaled=False)
x_train, x_valid, y_train, y_valid = train_test_split(table.data, table.target, test_size=0.2, random_state=0)
scaler = StandardScaler().fit(x_train)
x_train, x_valid = scaler.transform(x_train), scaler.transform(x_valid)
mean, deviation = y_train.mean(), y_train.std()
x_train, x_valid = torch.tensor(x_train).float(), torch.tensor(x_valid).float()
y_train, y_valid = (
    torch.tensor((y_train - mean) / deviation).float(),
    torch.tensor((y_valid - mean) / deviation).float(),
)


class Regressor(nn.Module):
    def __init__(self, features, width=32):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.middle = nn.Linear(width, width)
        self.gate = nn.Linear(features, width)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = torch.relu(self.middle(self.drop(h)))
        h = h * torch.sigmoid(self.gate(x))
        return self.last(h)


def train_epoch(model, optimizer, loss_function):
    model.train()
    total = 0.0
    order = torch.randperm(len(x_train))
    for rows in order.split(32):
        inputs, targets = x_train[rows], y_train[rows]
        optimizer.zero_grad()
        outputs = model(inputs).squeeze(1)
        loss = loss_function(outputs, targets)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(x_train)


@torch.no_grad()
def validate(model, loss_function):
    model.eval()
    return loss_function(model(x_valid).squeeze(1), y_valid).item()


model = Regressor(x_train.shape[1])
loss_function = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(20):
    trained = train_epoch(model, optimizer, loss_function)
    valid = validate(model, loss_function)
    print(f"epoch {epoch} loss {trained:.4f} valid {valid:.4f}")
