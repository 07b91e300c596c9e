"""A module of another team, in a package with a name that Trackside uses in its checkout."""

TEAM = "team-vision"
