"""The always-on statistics: what is measured when, and its rows on their way to storage."""
