"""Structured compile logs of torch, which `TORCH_TRACE=FOLDER` writes: one file per process."""

from __future__ import annotations

from traceanalyzer.readers.compile_log.reader import read

__all__ = ["read"]
