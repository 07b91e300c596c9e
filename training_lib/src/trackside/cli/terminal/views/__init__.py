"""Views in a terminal: cards, tables, live screens."""
