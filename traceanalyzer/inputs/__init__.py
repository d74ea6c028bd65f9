"""Finds and opens inputs: files, folders, patterns, URLs, saved reports. Groups the ranks of a run."""
