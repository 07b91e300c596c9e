"""The commonest mistakes of training scripts, each as a change of the text of three right programs.

The list was fixed before any of them was rehearsed, and has a variant of each mistake for each program: the same
mistake looks different in a loop over a loader, in a language model and in a regression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CLASSIFIER, LANGUAGE, REGRESSION = PROGRAMS = ("classifier", "language_model", "regression")
_FOLDER = Path(__file__).parent / "programs"

Edit = tuple[str, str]  # the text in the program, and the text in its place


@dataclass(frozen=True)
class Mistake:
    """A mistake of a training script.

    name     its name, in words with hyphens
    summary  the mistake in a few words
    edits    by program, the changes that plant it
    """

    name: str
    summary: str
    edits: Mapping[str, tuple[Edit, ...]]

    def planted(self, program: str) -> str:
        """Return the text of a program with the mistake in it.

        Raises:
            LookupError: The program lacks the text that is to be changed, or has it twice.
        """
        text = right(program)
        for old, new in self.edits[program]:
            if text.count(old) != 1:
                raise LookupError(f"{program} holds {old!r} {text.count(old)} times")
            text = text.replace(old, new)
        return text


def right(program: str) -> str:
    """Return the text of a program without a mistake."""
    return (_FOLDER / f"{program}.py").read_text(encoding="utf-8")


def pairs() -> Iterator[tuple[Mistake, str]]:
    """Yield each mistake with each program."""
    for mistake in MISTAKES:
        for program in PROGRAMS:
            yield mistake, program


def _mistake(
    name: str,
    summary: str,
    *,
    classifier: tuple[Edit, ...] | Edit,
    language: tuple[Edit, ...] | Edit,
    regression: tuple[Edit, ...] | Edit,
) -> Mistake:
    given = {CLASSIFIER: classifier, LANGUAGE: language, REGRESSION: regression}
    return Mistake(name, summary, {program: _edits(edits) for program, edits in given.items()})


def _edits(given: tuple[Edit, ...] | Edit) -> tuple[Edit, ...]:
    return (given,) if isinstance(given[0], str) else given


_ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)"
_ADAMW = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)"
_SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)"
_LOSSES = (
    "loss = criterion(model(x), y)",
    "loss = functional.cross_entropy(logits.reshape(-1, len(letters)), y.reshape(-1))",
    "loss = loss_function(outputs, targets)\n        loss.backward()",
)
_IN_LOADER, _IN_BATCH, _IN_ROWS = (
    "    for x, y in loader:\n",
    "    x, y = get_batch()\n",
    "        inputs, targets = x_train[rows], y_train[rows]\n",
)
_CLEARED = ("        optimizer.zero_grad()\n", "    optimizer.zero_grad(set_to_none=True)\n")
_STEPS = ("        optimizer.step()\n", "    optimizer.step()\n")
_BUILT = ("model = Network()\n", "model = Transformer()\n", "model = Regressor(x_train.shape[1])\n")


def _after(line: str, more: str) -> Edit:
    return line, line + more


def _of_optimizer(parameters: str) -> tuple[Edit, Edit, Edit]:
    return tuple((line, line.replace("model.parameters()", parameters)) for line in (_ADAM, _ADAMW, _SGD))  # type: ignore[return-value] # three of three


def _of_rate(factor: float) -> tuple[Edit, Edit, Edit]:
    return (
        (_ADAM, _ADAM.replace("2e-3", repr(2e-3 * factor))),
        (_ADAMW, _ADAMW.replace("1e-3", repr(1e-3 * factor))),
        (_SGD, _SGD.replace("0.02", repr(0.02 * factor))),
    )


def _built(more: str) -> tuple[Edit, Edit, Edit]:
    """Return edits that do something to the model right after it was built."""
    return tuple(_after(line, more) for line in _BUILT)  # type: ignore[return-value] # three of three


def _everywhere(name: str, summary: str, edits: tuple[Edit, Edit, Edit]) -> Mistake:
    classifier, language, regression = edits
    return _mistake(name, summary, classifier=classifier, language=language, regression=regression)


_ZERO_INIT = "for p in model.parameters():\n    nn.init.zeros_(p)\n"
_OF_ANOTHER = "optimizer of the parameters of another model"
_SIGMOIDS = "[layer for _ in range(8) for layer in (nn.Linear({0}, {0}), nn.Sigmoid())]"

MISTAKES = (
    _mistake(
        "no-zero-grad",
        "gradients are never cleared",
        classifier=(_CLEARED[0], ""),
        language=(_CLEARED[1], ""),
        regression=(_CLEARED[0], ""),
    ),
    _mistake(
        "cleared-before-step",
        "gradients are cleared between `backward` and `step`",
        classifier=((_CLEARED[0], ""), (_STEPS[0], _CLEARED[0] + _STEPS[0])),
        language=((_CLEARED[1], ""), (_STEPS[1], _CLEARED[1] + _STEPS[1])),
        regression=((_CLEARED[0], ""), (_STEPS[0], _CLEARED[0] + _STEPS[0])),
    ),
    _mistake(
        "no-step",
        "`optimizer.step()` is never called",
        classifier=(_STEPS[0], ""),
        language=(_STEPS[1], ""),
        regression=(_STEPS[0], ""),
    ),
    _mistake(
        "another-model",
        _OF_ANOTHER,
        classifier=(_ADAM, f"{_ADAM}\nmodel = Network()"),
        language=(_ADAMW, f"{_ADAMW}\nmodel = Transformer()"),
        regression=(_SGD, f"{_SGD}\nmodel = Regressor(x_train.shape[1])"),
    ),
    _everywhere(
        "part-left-out",
        "the optimizer holds the last layer only",
        (
            _of_optimizer("model.head.parameters()")[0],
            _of_optimizer("model.head.parameters()")[1],
            _of_optimizer("model.last.parameters()")[2],
        ),
    ),
    _everywhere("rate-100", "a hundred times the learning rate", _of_rate(100)),
    _everywhere("rate-1000", "a thousand times the learning rate", _of_rate(1000)),
    _everywhere("rate-tiny", "a hundred-thousandth of the learning rate", _of_rate(1e-5)),
    _mistake(
        "squashed-outputs",
        "an activation on the outputs that the loss does not expect",
        classifier=("return self.head(x)", "return self.head(x).softmax(dim=1)"),
        language=("return self.head(self.norm(x))", "return self.head(self.norm(x)).softmax(dim=-1)"),
        regression=("return self.last(h)", "return torch.relu(self.last(h))"),
    ),
    _mistake(
        "wrong-loss",
        "a loss that takes something else: probabilities for log-probabilities, an error with a sign",
        classifier=(_LOSSES[0], "loss = functional.nll_loss(model(x).softmax(dim=1), y)"),
        language=(_LOSSES[1], "loss = functional.nll_loss(logits.reshape(-1, len(letters)), y.reshape(-1))"),
        regression=(_LOSSES[2], "loss = (outputs - targets).mean()\n        loss.backward()"),
    ),
    _mistake(
        "loss-sign",
        "the loss is negated",
        classifier=(_LOSSES[0], "loss = -criterion(model(x), y)"),
        language=(_LOSSES[1], _LOSSES[1].replace("functional.", "-functional.")),
        regression=(_LOSSES[2], _LOSSES[2].replace("loss_function", "-loss_function")),
    ),
    _mistake(
        "labels-shuffled",
        "labels are shuffled against the inputs",
        classifier=_after(_IN_LOADER, "        y = y[torch.randperm(len(y))]\n"),
        language=_after(_IN_BATCH, "    y = y[torch.randperm(len(y))]\n"),
        regression=_after(_IN_ROWS, "        targets = targets[torch.randperm(len(targets))]\n"),
    ),
    _mistake(
        "labels-constant",
        "every label is the same",
        classifier=("labels = torch.tensor(digits.target)", "labels = torch.tensor(digits.target) // 10"),
        language=_after(_IN_BATCH, "    y = y * 0\n"),
        regression=_after(_IN_ROWS, "        targets = targets * 0\n"),
    ),
    _mistake(
        "inputs-zero",
        "every input is zero",
        classifier=_after(_IN_LOADER, "        x = x * 0\n"),
        language=_after(_IN_BATCH, "    x = x * 0\n"),
        regression=_after(_IN_ROWS, "        inputs = inputs * 0\n"),
    ),
    _mistake(
        "inputs-unscaled",
        "inputs or embeddings are a thousand times too large",
        classifier=_after(_IN_LOADER, "        x = x * 1000\n"),
        language=("x = self.words(tokens) + self", "x = 1000 * self.words(tokens) + self"),
        regression=_after(_IN_ROWS, "        inputs = inputs * 1000\n"),
    ),
    _mistake(
        "nan-in-data",
        "a NaN in the data, or in the attention of one row",
        classifier=("order = torch.randperm", "images[7::100, 0, 3, 3] = float('nan')\norder = torch.randperm"),
        language=("dtype=torch.bool).tril()", "dtype=torch.bool).tril(-1)"),
        regression=("\n\nclass Regressor", "x_train[7::50, 2] = float('nan')\n\n\nclass Regressor"),
    ),
    _mistake(
        "eval-mode",
        "the model trains in evaluation mode",
        classifier=("    model.train()\n", "    model.eval()\n"),
        language=("model.train()\n", "model.eval()\n"),
        regression=("    model.train()\n", "    model.eval()\n"),
    ),
    _mistake(
        "detached",
        "the body is cut off from the loss",
        classifier=(
            "x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)",
            "x = functional.max_pool2d(functional.relu(self.conv2(x)), 2).detach()",
        ),
        language=("return self.head(self.norm(x))", "return self.head(self.norm(x.detach()))"),
        regression=("h = torch.relu(self.first(x))", "h = torch.relu(self.first(x)).detach()"),
    ),
    _mistake(
        "plain-list",
        "layers in a plain list, which are not in `parameters()`",
        classifier=(
            ("self.hidden = nn.Linear(32 * 4 * 4, 64)", "self.hidden = [nn.Linear(32 * 4 * 4, 64)]"),
            ("self.hidden(self.drop", "self.hidden[0](self.drop"),
        ),
        language=("nn.ModuleList([Block() for _ in range(2)])", "[Block() for _ in range(2)]"),
        regression=(
            ("self.middle = nn.Linear(width, width)", "self.middle = [nn.Linear(width, width)]"),
            ("self.middle(self.drop", "self.middle[0](self.drop"),
        ),
    ),
    _mistake(
        "wrong-shape",
        "targets that are broadcast, or scores in another order than the labels",
        classifier=("self.drop(x.flatten(1))", "self.drop(x.reshape(-1, len(x)).T)"),
        language=(_LOSSES[1], "loss = functional.cross_entropy(logits.view(len(x), len(letters), -1), y)"),
        regression=("outputs = model(inputs).squeeze(1)", "outputs = model(inputs)"),
    ),
    _mistake(
        "wrong-axis",
        "a softmax over the samples of a batch, or over the wrong axis of attention",
        classifier=(
            "x = functional.relu(self.hidden(self.drop(x.flatten(1))))",
            "x = self.hidden(self.drop(x.flatten(1))).softmax(0)",
        ),
        language=(".softmax(dim=-1)", ".softmax(dim=0)"),
        regression=("torch.sigmoid(self.gate(x))", "torch.softmax(self.gate(x), dim=0)"),
    ),
    _everywhere("zero-init", "all weights start at zero", _built(_ZERO_INIT)),
    _mistake(
        "sigmoid-stack",
        "eight layers with a sigmoid each",
        classifier=(
            "self.head = nn.Linear(64, 10)",
            f"self.head = nn.Sequential(*{_SIGMOIDS.format(64)}, nn.Linear(64, 10))",
        ),
        language=(
            "self.head = nn.Linear(WIDTH, len(letters))",
            f"self.head = nn.Sequential(*{_SIGMOIDS.format('WIDTH')}, nn.Linear(WIDTH, len(letters)))",
        ),
        regression=(
            "self.last = nn.Linear(width, 1)",
            f"self.last = nn.Sequential(*{_SIGMOIDS.format('width')}, nn.Linear(width, 1))",
        ),
    ),
    _mistake(
        "dead-relu",
        "biases at which no ReLU is ever active",
        classifier=_after(_BUILT[0], "nn.init.constant_(model.hidden.bias, -20.0)\n"),
        language=_after(_BUILT[1], "for block in model.blocks:\n    nn.init.constant_(block.up.bias, -20.0)\n"),
        regression=_after(_BUILT[2], "nn.init.constant_(model.first.bias, -20.0)\n"),
    ),
    _mistake(
        "strong-decay",
        "a weight decay that outweighs the gradient",
        classifier=(_ADAM, _ADAM.replace("lr=2e-3", "lr=2e-3, weight_decay=10.0")),
        language=(_ADAMW, _ADAMW.replace("weight_decay=0.01", "weight_decay=100.0")),
        regression=(_SGD, _SGD.replace("momentum=0.9", "momentum=0.9, weight_decay=1.0")),
    ),
    _mistake(
        "clipped-to-nothing",
        "gradients are clipped to almost nothing",
        classifier=(_STEPS[0], "        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-10)\n" + _STEPS[0]),
        language=("(model.parameters(), 1.0)", "(model.parameters(), 1e-10)"),
        regression=(_STEPS[0], "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-8)\n" + _STEPS[0]),
    ),
    _mistake(
        "one-batch",
        "each step sees the same batch",
        classifier=_after(_IN_LOADER, "        x, y = next(iter(DataLoader(loader.dataset, batch_size=64)))\n"),
        language=("    starts = torch.randint", "    torch.manual_seed(1)\n    starts = torch.randint"),
        regression=(_IN_ROWS, "        inputs, targets = x_train[:32], y_train[:32]\n"),
    ),
    _mistake(
        "seen-answer",
        "the answer is among the inputs",
        classifier=_after(_IN_LOADER, "        x[:, 0, 0, 0] = y.float()\n"),
        language=('scores.masked_fill(~mask, float("-inf"))', "scores"),
        regression=(_IN_ROWS, _IN_ROWS + "        inputs = torch.cat([inputs[:, 1:], targets[:, None]], 1)\n"),
    ),
    _mistake(
        "kept-graph",
        "the losses of all steps are added up, and their graphs kept",
        classifier=(
            (
                _LOSSES[0],
                "total = criterion(model(x), y) + (total if 'total' in globals() else 0)\n        loss = total",
            ),
            ("        loss.backward()\n", "        loss.backward(retain_graph=True)\n"),
        ),
        language=(
            (_LOSSES[1], _LOSSES[1] + " + (loss if step else 0)"),
            ("    loss.backward()\n", "    loss.backward(retain_graph=True)\n"),
        ),
        regression=(
            ("total = 0.0", "total = loss_sum = 0.0"),
            (
                _LOSSES[2],
                (
                    "loss_sum = loss = loss_sum + loss_function(outputs, targets)\n"
                    "        loss.backward(retain_graph=True)"
                ),
            ),
        ),
    ),
)
