"""Changes of a script as text: what each cause changes, and silence where the line does not settle it."""

from __future__ import annotations

from tests.for_each import for_each
from trackside.contracts.cause import Cause
from trackside.contracts.repair import Edit
from trackside.runs.mending.edits import edits_of, holds_layers_in_a_list, with_setting, without_line

LOOP = """\
model = Network()
optimizer = SGD(model.head.parameters(), lr=0.1)
for x, y in loader:
    model.eval()
    loss = -loss_of(model(x).softmax(dim=1), y)
    loss.backward()
    optimizer.zero_grad()
    clip_grad_norm_(model.parameters(), 1e-9)
    optimizer.step()
"""


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    lines = text.splitlines()
    for edit in sorted(edits, key=lambda edit: -edit.line):
        assert lines[edit.line - 1] == edit.old
        lines[edit.line - 1 : edit.line] = edit.new.splitlines()
    return "\n".join([*lines, ""])


CHANGED: dict[str, tuple[Cause, str, int, str]] = {
    "gradients are cleared before the pass": (
        Cause.MISSING_ZERO_GRAD,
        "for x in data:\n    loss.backward()\n    adam.step()\n",
        2,
        "for x in data:\n    adam.zero_grad()\n    loss.backward()\n    adam.step()\n",
    ),
    "gradients are cleared after the step": (
        Cause.STEP_ORDER,
        "a.zero_grad()\nother()\na.step()\n",
        1,
        "other()\na.step()\na.zero_grad()\n",
    ),
    "the optimizer holds the whole model": (
        Cause.PARAMETERS_NOT_IN_OPTIMIZER,
        "o = SGD(model.head.parameters(), lr=1)\n",
        1,
        "o = SGD(model.parameters(), lr=1)\n",
    ),
    "the optimizer holds the model that is made last": (
        Cause.PARAMETERS_NOT_IN_OPTIMIZER,
        "o = SGD(model.parameters())\nmodel = Other()\n",
        1,
        "model = Other()\no = SGD(model.parameters())\n",
    ),
    "layers of a plain list": (
        Cause.PARAMETERS_NOT_IN_OPTIMIZER,
        "layers = [nn.Linear(2, 2) for _ in range(3)]\n",
        1,
        "layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])\n",
    ),
    "a softmax before a loss with its own": (Cause.DOUBLE_SOFTMAX, "z = f(x).softmax(1)\n", 1, "z = f(x)\n"),
    "probabilities for their logarithms": (
        Cause.WRONG_LOSS,
        "loss = nll_loss(z.softmax(dim=1), y)\n",
        1,
        "loss = nll_loss(z.log_softmax(dim=1), y)\n",
    ),
    "the sign of a loss": (Cause.LOSS_SIGN, "loss = -f(x)\n", 1, "loss = f(x)\n"),
    "flat functions": (Cause.VANISHING_GRADIENTS, "h = sigmoid(tanh(x))\n", 1, "h = relu(relu(x))\n"),
    "flat layers": (Cause.SATURATED_UNITS, "h = nn.Sigmoid()\n", 1, "h = nn.ReLU()\n"),
    "a part that is cut off": (Cause.FROZEN_PARAMETERS, "h = f(x).detach()\n", 1, "h = f(x)\n"),
    "weights that are alike": (
        Cause.SYMMETRIC_INITIALIZATION,
        "init.constant_(w, 0.1)\n",
        1,
        "init.normal_(w, std=0.02)\n",
    ),
    "the mode of training": (
        Cause.TRAIN_EVAL_MODE,
        "net.eval()\nfor x in data:\n    o.zero_grad()\n",
        2,
        "net.eval()\nfor x in data:\n    net.train()\n    o.zero_grad()\n",
    ),
    "a limit on gradients": (Cause.CLIPPING_TOO_LOW, "clip_(p, 1e-9)\n", 1, "clip_(p, 1.0)\n"),
}

SILENT: dict[str, tuple[Cause, str, int]] = {
    "a cause without a change of text": (Cause.OVERFITTING, LOOP, 5),
    "a line that is not in the script": (Cause.LOSS_SIGN, LOOP, 99),
    "no line": (Cause.LOSS_SIGN, LOOP, 0),
    "the line has no sign": (Cause.LOSS_SIGN, LOOP, 6),
    "several optimizers": (Cause.MISSING_ZERO_GRAD, "loss.backward()\na.step()\nb.step()\n", 1),
    "no step after the clearing": (Cause.STEP_ORDER, "a.step()\na.zero_grad()\n", 2),
    "parameters by another way": (Cause.PARAMETERS_NOT_IN_OPTIMIZER, "o = SGD(groups)\n", 1),
    "layers that the model sees": (Cause.PARAMETERS_NOT_IN_OPTIMIZER, "layers = nn.Sequential(a, b)\n", 1),
    "a list of numbers": (Cause.PARAMETERS_NOT_IN_OPTIMIZER, "sizes = [1, 2]\n", 1),
    "no softmax": (Cause.DOUBLE_SOFTMAX, LOOP, 6),
    "a loss that takes probabilities": (Cause.WRONG_LOSS, "loss = bce(z.softmax(dim=1), y)\n", 1),
    "no flat function": (Cause.VANISHING_GRADIENTS, "h = relu(x)\n", 1),
    "nothing is cut off": (Cause.FROZEN_PARAMETERS, "h = relu(x)\n", 1),
    "weights by chance": (Cause.SYMMETRIC_INITIALIZATION, "init.xavier_(w)\n", 1),
    "nothing is cleared": (Cause.TRAIN_EVAL_MODE, "net.eval()\n", 1),
    "two models are evaluated": (Cause.TRAIN_EVAL_MODE, "a.eval()\nb.eval()\no.zero_grad()\n", 1),
    "a script that does not parse": (Cause.LOSS_SIGN, "loss = -f(x)\ndef (\n", 1),
}


def test_the_change_of_each_cause() -> None:
    @for_each(CHANGED)
    def check(cause: Cause, text: str, line: int, mended: str) -> None:
        assert applied(text, edits_of(text, line, cause)) == mended

    check()


def test_no_change_where_the_line_does_not_settle_it() -> None:
    @for_each(SILENT)
    def check(cause: Cause, text: str, line: int) -> None:
        assert edits_of(text, line, cause) == ()

    check()


def test_a_setting_gets_its_value_or_is_added() -> None:
    (given,) = with_setting(LOOP, 2, "lr", 0.001)
    assert given.new == "optimizer = SGD(model.head.parameters(), lr=0.001)"
    (added,) = with_setting(LOOP, 2, "weight_decay", 0.1)
    assert added.new == "optimizer = SGD(model.head.parameters(), lr=0.1, weight_decay=0.1)"
    assert with_setting("o = SGD(\n    p, lr=1)\n", 1, "lr", 0.1) == ()  # the call goes on
    assert with_setting(LOOP, 99, "lr", 0.1) == ()


def test_a_line_is_left_out() -> None:
    assert applied(LOOP, without_line(LOOP, 4)) == LOOP.replace("    model.eval()\n", "")
    assert without_line(LOOP, 3) == ()  # the rest is no Python


def test_a_list_of_layers() -> None:
    assert holds_layers_in_a_list("self.hidden = [nn.Linear(2, 2)]")
    assert not holds_layers_in_a_list("self.hidden = nn.ModuleList([nn.Linear(2, 2)])")
    assert not holds_layers_in_a_list("sizes = [min(1, 2)]")
