"""Runs the command line as `python -m traceanalyzer`."""

from traceanalyzer.cli import main

main()
