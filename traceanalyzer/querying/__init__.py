"""SQL over a recording: DuckDB reads the columns of the reader where they are.

    tables      the tables, with the meaning of each column
    computed    those of them that are computed: links, steps, modules, marks, gaps, findings, ranks
    recordings  the traces, with what these share
    database    the connection: what a query may do, and for how long

A query names tables, and only those that it names are computed. DuckDB is imported on use.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.querying.database import Database, QueryLimits, QueryRows
from traceanalyzer.querying.recordings import QueriedTrace
from traceanalyzer.querying.tables import bind
from traceanalyzer.trace.model import Trace

__all__ = ["QueryLimits", "QueryRows", "sql", "to_parquet"]


def sql(
    traces: Trace | Sequence[Trace],
    query: str,
    *,
    limits: QueryLimits | None = None,
    config: Config | None = None,
    jobs: int = 1,
) -> QueryRows:
    """Ask a trace, or the traces of all ranks of a run, a question in SQL; docs/query.md has the tables.

    Args:
        traces: What `load` returned; of several, the tables hold the rows of all ranks.
        query: One SELECT in the dialect of DuckDB. It reads the tables of the trace and nothing else: no file, no
            address, no variable of Python.
        limits: What the query may take; more is an error.
        config: Settings of a project, for the tables `findings` and `spans`.
        jobs: As of `analyze`, for these tables.

    Raises:
        UsageError: The query is not one SELECT, names what is not there, or exceeds a limit; or there is no trace.
        MissingDependencyError: DuckDB is not installed.
    """
    with Database(limits or QueryLimits()) as database:
        bind(database, _recordings(traces, config, jobs), query)
        return database.answer(query)


def to_parquet(
    traces: Trace | Sequence[Trace],
    query: str,
    path: Path,
    *,
    limits: QueryLimits | None = None,
    config: Config | None = None,
    jobs: int = 1,
) -> int:
    """Write the answer to a query as a Parquet file, and return its number of rows.

    Args:
        traces: As of `sql`.
        query: As of `sql`.
        path: The file, which is replaced.
        limits: As of `sql`.
        config: As of `sql`.
        jobs: As of `sql`.

    Raises:
        UsageError: As of `sql`.
        MissingDependencyError: As of `sql`.
    """
    with Database(limits or QueryLimits(), writes=path) as database:
        bind(database, _recordings(traces, config, jobs), query)
        return database.write_parquet(query)


def _recordings(traces: Trace | Sequence[Trace], config: Config | None, jobs: int) -> list[QueriedTrace]:
    """One recording for each rank.

    Raises:
        UsageError: There is none, or something is no trace.
    """
    given: list[Trace] = list(traces) if isinstance(traces, list | tuple) else [traces]  # type: ignore[list-item]  # checked next
    if not given or not all(isinstance(trace, Trace) for trace in given):
        raise UsageError("a query is answered from traces; traceanalyzer.load reads one")
    ranks = [rank for trace in given for rank in (trace.ranks or (trace,))]
    named = [trace.info.rank for trace in ranks if trace.info.rank is not None]
    numbers = named if len({*named}) == len(ranks) else range(len(ranks))
    return [QueriedTrace(trace, rank, config, jobs) for trace, rank in zip(ranks, numbers, strict=True)]
