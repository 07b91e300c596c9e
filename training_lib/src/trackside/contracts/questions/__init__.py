"""Tables of many runs, and questions about them: for DuckDB at a desk, and Athena in the deployment."""
