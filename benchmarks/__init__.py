"""Timed comparisons on grown traces; see README.md. Never part of the test suite."""
