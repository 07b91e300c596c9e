"""Views of runs in a browser, a file and a notebook: the report, the dashboard, questions in SQL."""
