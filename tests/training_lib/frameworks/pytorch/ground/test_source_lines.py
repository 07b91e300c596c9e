"""The lines that created modules, optimizers and losses: found in syntax trees, without running anything."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, is_user_file, shown, user_place
from trackside.frameworks.pytorch.facts.model_facts import _tree
from trackside.frameworks.pytorch.ground.parameter_names import inner_modules
from trackside.frameworks.pytorch.ground.source_lines import SourceLines

Load = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Writes a script and imports it."""

    def make(source: str) -> Any:
        path = tmp_path / "script_of_the_user.py"
        path.write_text(
            "import torch\nfrom torch import nn\nfrom collections import OrderedDict\n" + textwrap.dedent(source)
        )
        spec = importlib.util.spec_from_file_location("script_of_the_user", path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["script_of_the_user"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield make
    sys.modules.pop("script_of_the_user", None)


def lines(script: Any, root: nn.Module) -> dict[str, str]:
    """What is written on the line of each module."""
    text = Path(script.__file__).read_text().splitlines()
    modules = [(path, type(module)) for path, module in inner_modules(root)]
    found = SourceLines().modules(_tree(modules), files=[script.__file__])
    return {path: text[place.line - 1].strip() for path, place in found.items()}


FOUND = [
    pytest.param(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1 = nn.Linear(3, 4)
                self.act, self.drop = nn.ReLU(), nn.Dropout()
        model = Net()
        """,
        {
            "": "model = Net()",
            "fc1": "self.fc1 = nn.Linear(3, 4)",
            "act": "self.act, self.drop = nn.ReLU(), nn.Dropout()",
            "drop": "self.act, self.drop = nn.ReLU(), nn.Dropout()",
        },
        id="attributes",
    ),
    pytest.param(
        """
        model = nn.Sequential(
            nn.Linear(3, 4),
            nn.ReLU(),
        )
        """,
        {"": "model = nn.Sequential(", "0": "nn.Linear(3, 4),", "1": "nn.ReLU(),"},
        id="a Sequential in the script",
    ),
    pytest.param(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(OrderedDict([
                    ("first", nn.Linear(3, 4)),
                    ("second", nn.ReLU()),
                ]))
        model = Net()
        """,
        {
            "": "model = Net()",
            "body": "self.body = nn.Sequential(OrderedDict([",
            "body.first": '("first", nn.Linear(3, 4)),',
            "body.second": '("second", nn.ReLU()),',
        },
        id="an OrderedDict",
    ),
    pytest.param(
        """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 3)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(2)])
        model = Net()
        """,
        {
            "": "model = Net()",
            "blocks": "self.blocks = nn.ModuleList([Block() for _ in range(2)])",
            "blocks.0": "self.blocks = nn.ModuleList([Block() for _ in range(2)])",
            "blocks.0.fc": "self.fc = nn.Linear(3, 3)",
            "blocks.1": "self.blocks = nn.ModuleList([Block() for _ in range(2)])",
            "blocks.1.fc": "self.fc = nn.Linear(3, 3)",
        },
        id="a comprehension",
    ),
    pytest.param(
        """
        def head(width):
            layers = [nn.Linear(3, width)]
            layers.append(nn.Tanh())
            return nn.Sequential(*layers)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = head(4)
        model = Net()
        """,
        {
            "": "model = Net()",
            "head": "self.head = head(4)",
            "head.0": "layers = [nn.Linear(3, width)]",
            "head.1": "layers.append(nn.Tanh())",
        },
        id="a function that makes a list",
    ),
    pytest.param(
        """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.low = nn.Linear(3, 3)
        class Net(Base):
            def __init__(self):
                super().__init__()
                self.add_module("high", nn.Linear(3, 2))
        model = Net()
        """,
        {
            "": "model = Net()",
            "low": "self.low = nn.Linear(3, 3)",
            "high": 'self.add_module("high", nn.Linear(3, 2))',
        },
        id="a base class and add_module",
    ),
    pytest.param(
        """
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(
                    nn.Linear(3, 4),
                    nn.ReLU(),
                )
        model = Net()
        """,
        {"": "model = Net()", "0": "nn.Linear(3, 4),", "1": "nn.ReLU(),"},
        id="a Sequential by inheritance",
    ),
    pytest.param(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = nn.ModuleDict({
                    "a": nn.Linear(3, 1),
                })
        model = Net()
        """,
        {
            "": "model = Net()",
            "heads": "self.heads = nn.ModuleDict({",
            "heads.a": '"a": nn.Linear(3, 1),',
        },
        id="a ModuleDict",
    ),
]
FOUND.append(
    pytest.param(
        "model = nn.Sequential(*[f() for f in (nn.ReLU, nn.Tanh)])",
        dict.fromkeys(("", "0", "1"), "model = nn.Sequential(*[f() for f in (nn.ReLU, nn.Tanh)])"),
        id="classes in a tuple",
    )
)
# No line is said rather than a wrong one.
UNKNOWN = [
    pytest.param("model = eval('nn.Sequential(nn.Linear(1, 1))')", {"", "0"}, id="eval"),
    pytest.param(
        """
        other = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
        model = type(other)(nn.Tanh())
        """,
        {"", "0"},
        id="another Sequential",
    ),
    pytest.param(
        """
        model = nn.Sequential()
        model.extend([nn.Linear(1, 1), nn.ReLU()])
        """,
        {"0", "1"},
        id="filled later",
    ),
    pytest.param("model = nn.TransformerEncoderLayer(4, 2)", {"self_attn", "linear1"}, id="inside of a library's"),
    pytest.param(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                for i in range(2):
                    setattr(self, f"fc{i}", nn.Linear(1, 1))
        model = Net()
        """,
        {"fc0", "fc1"},
        id="computed names",
    ),
    pytest.param(
        """
        class Net(nn.Module):
            def __init__(self, kinds):
                super().__init__()
                self.net = nn.Sequential(*map(lambda kind: kind(), kinds))
        model = Net([nn.ReLU])
        """,
        {"net.0"},
        id="a map",
    ),
    pytest.param(
        """
        def make(kind):
            return kind()
        model = make(nn.ReLU)
        """,
        {""},
        id="made from a class that is handed in",
    ),
]


@pytest.mark.parametrize(("source", "expected"), FOUND)
def test_where_modules_were_created(load: Load, source: str, expected: dict[str, str]) -> None:
    script = load(source)
    assert lines(script, script.model) == expected


@pytest.mark.parametrize(("source", "unknown"), UNKNOWN)
def test_no_line_rather_than_a_wrong_one(load: Load, source: str, unknown: set[str]) -> None:
    script = load(source)
    assert not unknown & lines(script, script.model).keys()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("loss = f(x)\nloss.backward()", 1, id="a variable"),
        pytest.param("loss = f(x)\nloss = loss / 4\nloss.backward()", 1, id="divided for accumulation"),
        pytest.param("loss = f(x)\nscaler.scale(loss).backward()", 1, id="scaled"),
        pytest.param("x = 1\nf(x).backward()", 2, id="computed there"),
        pytest.param("loss = f(x)\naccelerator = A()\naccelerator.backward(loss)", 1, id="by an accelerator"),
        pytest.param("loss = f(x)\ntorch.autograd.backward(loss)", 1, id="by the function"),
        pytest.param("loss = f(x)\n(loss * 2).backward()", 1, id="multiplied"),
        pytest.param("out, loss = f(x)\nloss.backward()", 1, id="one of two"),
        pytest.param("trainer.fit(model)", None, id="no call of backward"),
        pytest.param("self.loss.backward()", None, id="an attribute"),
        pytest.param("def f(loss):\n    loss.backward()", None, id="handed in"),
        pytest.param("this is no Python", None, id="no Python"),
        pytest.param("", None, id="an empty file"),
    ],
)
def test_where_a_loss_was_computed(tmp_path: Path, source: str, expected: int | None) -> None:
    path = tmp_path / "script.py"
    path.write_text(source)
    found = SourceLines().loss(Place(str(path), len(source.splitlines())))
    assert (found.line if found else None) == expected


def test_a_place_is_in_the_users_own_code() -> None:
    place = user_place()
    assert place is not None
    assert (place.file, is_user_file(place.file)) == (__file__, True)
    assert not is_user_file(torch.__file__)
    assert not is_user_file(textwrap.__file__)
    assert not is_user_file(sys.modules[SourceLines.__module__].__file__ or "")
    assert not is_user_file("<stdin>")


@pytest.mark.parametrize(
    ("place", "script", "expected"),
    [
        pytest.param(Place("/work/train.py", 3), "/work/train.py", "train.py:3", id="the script"),
        pytest.param(Place("/work/nets/a.py", 3), "/work/train.py", "nets/a.py:3", id="below it"),
        pytest.param(Place("/work/nets/a.py", 3), "/work/scripts/train.py", "../nets/a.py:3", id="beside it"),
        pytest.param(Place("/work/nets/a.py", 3), "", "a.py:3", id="no script"),
        pytest.param(None, "/work/train.py", "", id="no place"),
    ],
)
def test_how_a_place_is_shown(place: Place | None, script: str, expected: str) -> None:
    assert shown(place, script) == expected


def test_a_thousand_modules_take_no_time(load: Load) -> None:
    """The promise is 50 ms on a machine that does nothing else; what is kept here is that it does not grow wild."""
    script = load(
        """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(1, 1)
                self.body = nn.Sequential(nn.ReLU(), nn.Linear(1, 1), nn.Tanh())
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(200)])
        model = Net()
        """
    )
    modules = [(path, type(module)) for path, module in inner_modules(script.model)]
    assert len(modules) > 1000
    started = time.process_time()
    found = SourceLines().modules(_tree(modules), files=[script.__file__])
    assert time.process_time() - started < 0.5
    assert len(found) == len(modules)
