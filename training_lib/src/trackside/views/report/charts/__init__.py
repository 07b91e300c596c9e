"""Charts and pictures of a report, as SVG, HTML and PNG."""
