"""The measure of strictness: what it breaks, and that the account refuses it."""

from __future__ import annotations

from collections import Counter

import botocore.session
import pytest

from benchmarks.strict_account import Asker, broken, measure, stock, table
from trackside_localaccount import LocalAccount


def test_each_request_is_broken_in_one_place() -> None:
    shape = botocore.session.get_session().get_service_model("sagemaker").operation_model("AddTags").input_shape
    right = {"ResourceArn": "arn:aws:sagemaker:x", "Tags": [{"Key": "k", "Value": "v"}]}

    found = list(broken(shape, right, is_json=True))

    kinds = Counter((one.place, one.kind) for one in found)
    assert kinds["Tags", "missing"] == 1
    assert kinds["Tags", "items"] == 1  # 51 of them; the least is 0
    assert kinds["Tags.0.Key", "length"] == 2
    assert all(one.request != right for one in found)
    assert right == {"ResourceArn": "arn:aws:sagemaker:x", "Tags": [{"Key": "k", "Value": "v"}]}


@pytest.mark.parametrize("service", ["events", "sns"])
def test_the_account_refuses_what_is_broken(service: str) -> None:
    with LocalAccount(stop_grace_seconds=0.1) as account:
        stock(account)
        asked, refused, wrong = measure(Asker(account), only=(service,))

    assert wrong == []
    assert asked == refused
    assert asked.total() > 8


def test_what_is_taken_counts_against_the_account() -> None:
    shown = table(Counter(enum=3, range=1), Counter(enum=2))

    assert "| enum | 3 | 2 |" in shown
    assert "| **all** | 4 | 2 (50 %) |" in shown
