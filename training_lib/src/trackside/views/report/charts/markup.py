"""HTML from Python values. Text is escaped where it enters, so names of tensors and runs cannot become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

from trackside.runs.problem_text import safe

EMPTY_ELEMENTS = frozenset(["br", "col", "hr", "image", "img", "input", "line", "meta", "path", "polyline", "rect"])


class Markup(str):
    """Text that is HTML already. Only this module and constants make it."""

    __slots__ = ()


Child = str | Markup | None


def element(name: str, /, *children: Child | Iterable[Child], **attributes: str | float | bool | None) -> Markup:
    """Return an HTML or SVG element.

    Args:
        name: The element's name.
        children: Texts, which are escaped, and elements; None is left out.
        attributes: By name, with `_` for `-`; a name may end with `_`, as in `class_`. None and False are left out.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in EMPTY_ELEMENTS and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child | Iterable[Child]) -> Markup:
    """Return texts and elements one after another."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(html.escape(safe(child)))
        else:
            parts.append(joined(*child))
    return Markup("".join(parts))


def scrolled(content: Markup, name: str) -> Markup:
    """Return content that may be wider than the page, which scrolls by itself, by keyboard too.

    Args:
        content: The content.
        name: Its name for screen readers.
    """
    return element("div", content, class_="wide", tabindex=0, role="region", aria_label=name)


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = value if isinstance(value, str) else f"{value:g}"
    return f' {name}="{html.escape(text if isinstance(value, Markup) else safe(text))}"'
