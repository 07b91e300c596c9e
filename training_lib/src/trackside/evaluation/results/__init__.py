"""From findings to stored verdicts: counted, grouped, delivered, and summed up at the end."""
