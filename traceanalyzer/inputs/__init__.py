"""Finds and opens what people name: files, folders, patterns, URLs, saved reports; groups the ranks of a run."""
