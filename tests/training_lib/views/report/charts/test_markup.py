from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.views.report.charts.markup import Markup, element, joined


class Seen(HTMLParser):
    """What a browser's parser would see: elements with attributes, and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(markup: str) -> Seen:
    found = Seen()
    found.feed(markup)
    found.close()
    return found


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(element("p", "a < b"), "<p>a &lt; b</p>", id="text"),
        pytest.param(element("p", Markup("<b>c</b>"), None, "d"), "<p><b>c</b>d</p>", id="element-and-nothing"),
        pytest.param(element("td", ["x", element("i", "y")]), "<td>x<i>y</i></td>", id="several"),
        pytest.param(element("rect", x=1.0, hidden=True, y=None), '<rect x="1" hidden/>', id="empty"),
        pytest.param(element("line", element("b", "t"), x_y=2), '<line x-y="2"><b>t</b></line>', id="with-child"),
        pytest.param(joined("\x1b[31m"), "\\x1b[31m", id="escape-of-a-terminal"),
    ],
)  # fmt: skip
def test_elements(made: Markup, expected: str) -> None:
    assert made == expected


@given(text=st.text())
def test_no_text_becomes_markup(text: str) -> None:
    found = seen(element("p", text, title=text))
    assert [name for name, _ in found.elements] == ["p"]
    assert set(found.elements[0][1]) == {"title"}
