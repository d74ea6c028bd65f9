"""Makes traces out of traces: cut to a part, or without names; every viewer can open them.

A trace is never held in memory: events are copied window by window, each as it stands in the file.
"""
