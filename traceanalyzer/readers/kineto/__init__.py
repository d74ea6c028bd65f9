"""Reads Kineto / Chrome trace JSON, as torch.profiler writes it."""

from traceanalyzer.readers.kineto.reader import read

__all__ = ["read"]
