"""The address of the page of a rule: in the clone that Trackside came from, else on the site of the documentation."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

from trackside.extras import DISTRIBUTION, Origin


@cache
def page_of(rule_id: str) -> str:
    """Return the address of a rule's page for this installation; "" if there is none."""
    from importlib import metadata  # slow to import

    try:
        project = metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        project = []
    return page_from(Origin.read(), project, rule_id)


def page_from(origin: Origin, project_urls: list[str], rule_id: str) -> str:
    """Return the address of a rule's page; "" if none is known.

    Args:
        origin: Origin of the installation.
        project_urls: The lines `Project-URL` of its metadata: `Documentation, https://...`.
        rule_id: The rule.
    """
    if origin.folder is not None:
        page = origin.folder / "docs" / "rules" / f"{rule_id}.md"
        return page.as_uri() if page.is_file() else ""
    for line in project_urls:
        label, _, address = line.partition(", ")
        if label == "Documentation" and not (urlsplit(address).hostname or "example").endswith("example"):
            return f"{address.rstrip('/')}/rules/{rule_id}/"
    return ""
