"""Makes traces from traces: cut to a part, or without private names; every viewer can open them.

A trace is never loaded completely: events are copied window by window, each as it is in the file.
"""
