"""Analyzes many traces in parallel, within the memory limit, and summarizes them in one index."""
