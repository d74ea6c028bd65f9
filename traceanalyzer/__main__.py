"""`python -m traceanalyzer`."""

from traceanalyzer.cli import main

main()
