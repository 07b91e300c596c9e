from __future__ import annotations

from trackside.trial.notebook import html_table


def test_everything_from_outside_is_escaped() -> None:
    html = html_table("<b>t</b>", ["a&b"], [["<script>alert(1)</script>"], ["x\x1b[31m\u202ey"]], note="<i>")
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<b>t</b></b>" not in html
    assert "a&amp;b" in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "&lt;i&gt;" in html


def test_a_table_without_rows_is_still_one() -> None:
    assert "<tbody></tbody>" in html_table("t", ["a"], [])
