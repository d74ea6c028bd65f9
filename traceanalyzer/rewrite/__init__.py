"""Traces made of traces: cut to a part, or without names, still traces for every viewer.

A trace is never held in memory: events are copied window by window, each as it stands in the file.
"""
