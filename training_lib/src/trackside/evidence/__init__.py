"""Questions about a run that distinguish causes, each in one place, for rules and for the ranking of causes."""
