"""Tables for notebooks: static HTML without a script, everything from outside escaped."""

from __future__ import annotations

from collections.abc import Sequence


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = "") -> str:
    """Return a table with a title. Its colours are those of the notebook."""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    below = f"<p>{_text(note)}</p>" if note else ""
    return (
        f"<div><p><b>{_text(title)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def _text(text: str) -> str:
    from html import escape  # brings a table of all entities, for notebooks

    return escape("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))
