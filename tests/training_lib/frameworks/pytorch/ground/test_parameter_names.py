"""The names of an optimizer's parameters, looked up once for the same parameters."""

from __future__ import annotations

import itertools
import math

import torch

from tests.work import bytecodes
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames


def test_the_same_parameters_have_the_same_row_of_names() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer, names = torch.optim.SGD(model.parameters(), lr=0.1), ParameterNames()
    row, parameters = names.row(optimizer)
    assert row == ("Linear_weight", "Linear_bias")
    assert [*map(id, parameters)] == [*map(id, model.parameters())]
    assert names.row(optimizer)[0] is row
    assert list(names.of(optimizer)) == list(zip(row, parameters, strict=True))


def test_a_row_of_many_takes_no_more_work_than_one_of_few() -> None:
    def work(layers: int) -> int:
        model = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(layers)))
        optimizer, names = torch.optim.SGD(model.parameters(), lr=0.1), ParameterNames()
        names.row(optimizer)
        return bytecodes(lambda: names.row(optimizer))

    assert work(30) == work(2)


def test_a_parameter_that_takes_the_id_of_one_that_is_gone_has_its_own_name() -> None:
    names = ParameterNames(process_clock=lambda: math.inf)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert names.row(optimizer)[0] == ("Parameters_0.weight",)
    optimizer.param_groups[0]["params"] = []
    new = [torch.nn.Parameter(torch.ones(1)) for _ in range(100)]  # one of them lies where it lay
    for place, parameter in enumerate(new):
        optimizer.param_groups[0]["params"] = [parameter]
        assert names.row(optimizer)[0] == (f"Parameters_{place + 1}.weight",)


def test_of_models_without_end_as_many_are_searched_for_as_is_affordable() -> None:
    seconds, of_process = itertools.count(), [0.0]
    names = ParameterNames(clock=lambda: float(next(seconds)), process_clock=lambda: of_process[0])  # 1 s a search

    def is_named() -> bool:
        return bool(names.row(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1))[0])

    assert [is_named() for _ in range(40)] == 32 * [True] + 8 * [False]
    of_process[0] = 32 / 0.02
    assert [is_named() for _ in range(3)] == [True, False, False]
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert names.row(optimizer)[0] == ()
    of_process[0] = 1e9
    assert len(names.row(optimizer)[0]) == 2, "once it is affordable, at any later step"


def test_a_parameter_that_is_added_to_a_group_is_named() -> None:
    model, late = torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)
    optimizer, names = torch.optim.SGD(model.parameters(), lr=0.1), ParameterNames()
    names.row(optimizer)
    optimizer.add_param_group({"params": list(late.parameters())})
    assert names.row(optimizer)[0] == ("Linear_weight", "Linear_bias", "Linear2_weight", "Linear2_bias")
