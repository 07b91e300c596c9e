"""A pytest plugin: the training in a test is judged, and a problem fails the test with its card.

pytest imports this file at every start, so that it imports nothing but pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trackside.integrations.judged_test import JudgedTest

MARKER = (
    'trackside(fail_on="critical", rules=None, save_interval=1): judge the training in this test, and fail it if an '
    "issue is at least this severe"
)
_judged_tests: dict[str, JudgedTest] = {}  # by the id of the test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--trackside` and `--trackside-fail-on`."""
    group = parser.getgroup("trackside", "trackside: trainings in tests are judged")
    group.addoption("--trackside", action="store_true", help="Judge the PyTorch training of every test.")
    group.addoption(
        "--trackside-fail-on",
        choices=("warning", "critical"),
        default="critical",
        help="Fail a test if an issue is at least this severe, unless its marker names another. Default: critical.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def trackside_run(request: pytest.FixtureRequest) -> JudgedTest:
    """Capture the training in this test. `judge()` of it returns the problems."""
    return _judged_test(request.node)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Capture and judge the test if its marker, its fixture or the command line requests it."""
    # The fixture has made its capture by now. One of the user's own with the same name makes none.
    is_chosen = item.get_closest_marker("trackside") is not None or item.nodeid in _judged_tests
    if not is_chosen and not (item.config.getoption("trackside") and "torch" in sys.modules):
        yield
        return
    test = _judged_test(item)
    test.begin()
    outcome: Any = yield
    failure = "" if outcome.excinfo else test.failure(is_training_expected=is_chosen)
    test.end()
    del _judged_tests[item.nodeid]
    if failure:
        outcome.force_exception(pytest.fail.Exception(failure, pytrace=False))


def _judged_test(item: pytest.Item) -> JudgedTest:
    """Return the capture of this test, made on the first call."""
    if item.nodeid not in _judged_tests:
        from trackside.contracts.errors import ConfigurationError
        from trackside.integrations.judged_test import JudgedTest

        marker = item.get_closest_marker("trackside")
        settings = {"fail_on": item.config.getoption("trackside_fail_on"), **(marker.kwargs if marker else {})}
        problem = ""
        try:
            _judged_tests[item.nodeid] = JudgedTest(**settings)
        except (ConfigurationError, TypeError) as error:
            problem = str(error)
        if problem:  # outside of the handler, whose error the report would show as well
            pytest.fail(problem, pytrace=False)
    return _judged_tests[item.nodeid]
