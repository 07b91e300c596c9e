from __future__ import annotations

from pathlib import Path

import pytest

from tests.training_lib.cli.terminal.views.test_card import drawn
from tests.training_lib.local.verdicts import issue
from trackside.cli.terminal.rule_page import page_from, page_of
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.extras import Origin

CLONE = Path(__file__).parents[4]
SITE = ["Homepage, https://trackside.dev", "Documentation, https://trackside.dev/docs/"]


def test_each_rule_has_a_page_in_a_clone() -> None:
    pages = {rule: page_from(Origin(folder=CLONE), [], rule) for rule in built_in_catalogue().rules}
    assert [rule for rule, page in pages.items() if page != (CLONE / f"docs/rules/{rule}.md").as_uri()] == []


@pytest.mark.parametrize(
    ("origin", "urls", "rule", "page"),
    [
        pytest.param(Origin(), SITE, "overfit", "https://trackside.dev/docs/rules/overfit/", id="site"),
        pytest.param(Origin(), ["Documentation, https://trackside.example/docs/"], "overfit", "", id="placeholder"),
        pytest.param(Origin(), ["Homepage, https://trackside.dev"], "overfit", "", id="no-documentation"),
        pytest.param(Origin(), [], "overfit", "", id="nothing"),
        pytest.param(Origin(folder=CLONE), SITE, "mine", "", id="a-rule-without-a-page"),
        pytest.param(Origin(folder=CLONE / "docs"), SITE, "overfit", "", id="another-folder"),
    ],
)
def test_no_page_is_invented(origin: Origin, urls: list[str], rule: str, page: str) -> None:
    assert page_from(origin, urls, rule) == page


def test_the_code_in_a_card_is_a_link_on_a_terminal_only() -> None:
    page = page_of("vanishing-gradient")
    assert page
    assert f";{page}\x1b\\TS117" in drawn(issue(), color=True)
    assert "\x1b" not in drawn(issue())
    assert page not in drawn(issue())
