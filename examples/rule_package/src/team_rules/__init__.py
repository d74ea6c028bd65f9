"""Rules of a team."""
