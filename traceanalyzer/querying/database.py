"""A connection to DuckDB that reads given columns and nothing else, within limits of rows, time and memory."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from traceanalyzer.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

_GRACE_S = 2.0
"""How long a query that was interrupted may take to end: one that is within a single function does not notice."""
_SETTINGS = (
    "set python_enable_replacements = false",  # no variable of Python is a table
    "set temp_directory = ''",
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set allow_community_extensions = false",
)
_LOCKS = ("set enable_external_access = false", "set lock_configuration = true")
_PLACE = re.compile(r"\bLINE \d+: ")
"""Before the line of the query that DuckDB quotes, and a mark below it."""
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_OWN_TABLE = re.compile(r"\b_(\w+?)_\d+\b")
"""Names of columns as they were read, behind the tables that people query."""


@dataclass(frozen=True)
class QueryLimits:
    """What a query may take."""

    rows: int = 100_000
    """Most rows of its answer."""
    seconds: float = 60.0
    """Longest time in s."""
    memory_mb: int = 2_000
    """Most memory in MB (10^6 bytes), besides the columns of the trace."""


@dataclass(frozen=True)
class QueryRows:
    """The answer to a query."""

    columns: tuple[str, ...]
    """Names of the columns."""
    types: tuple[str, ...]
    """The type of each as DuckDB names it, such as BIGINT or VARCHAR."""
    rows: tuple[tuple[Any, ...], ...]
    """The rows; None is unknown."""

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> list[dict[str, Any]]:
        """The rows by name of the column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def import_duckdb() -> Any:
    """Import DuckDB, which only queries need.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingDependencyError("duckdb", extra="sql") from error
    return duckdb


class Database:
    """Tables of a recording for one query."""

    def __init__(self, limits: QueryLimits, writes: Path | None = None) -> None:
        """Open it.

        Args:
            limits: What the query may take.
            writes: The only file that may be written.
        """
        self._duckdb = import_duckdb()
        self._limits = limits
        self._writes = writes
        self._connection: duckdb.DuckDBPyConnection = self._duckdb.connect(":memory:")
        self._run(*_SETTINGS, f"set memory_limit = '{limits.memory_mb}MB'")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_stuck:
            self._connection.close()

    _is_stuck = False
    """Whether a query does not end although it was told to."""

    def add(self, name: str, columns: Mapping[str, Any]) -> None:
        """Add a table of numpy columns, which DuckDB reads where they are."""
        self._connection.register(name, dict(columns))

    def define(self, statement: str) -> None:
        """Define a view or an empty table."""
        self._run(statement)

    def answer(self, query: str) -> QueryRows:
        """The rows of a query.

        Raises:
            UsageError: It is not one SELECT, names what is not there, or exceeds a limit.
        """

        def fetch() -> QueryRows:
            found = self._connection.execute(self._limited(query))
            columns = [(str(name), str(kind)) for name, kind, *_ in found.description]
            rows = found.fetchall()
            return QueryRows(tuple(n for n, _ in columns), tuple(k for _, k in columns), tuple(rows))

        answer = self._within_limits(query, fetch)
        self._refuse_more(len(answer))
        return answer

    def write_parquet(self, query: str) -> int:
        """Write the rows of a query into the file that may be written, and return their number.

        Raises:
            UsageError: As of `answer`.
        """
        path = str(self._writes).replace("'", "''")
        statement = f"copy ({self._limited(query)}) to '{path}' (format parquet)"

        def copy() -> int:
            row = self._connection.execute(statement).fetchone()
            return int(row[0]) if row else 0

        rows = self._within_limits(query, copy)
        self._refuse_more(rows)
        return rows

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._connection.execute(statement)

    def _limited(self, query: str) -> str:
        """The query with one row more than allowed, so that it shows whether there are more.

        Raises:
            UsageError: It is not one SELECT.
        """
        try:
            statements = self._connection.extract_statements(query)
        except self._duckdb.Error as error:
            raise UsageError(_said(error)) from None
        if len(statements) != 1:
            raise UsageError(f"a query is one SELECT; this has {len(statements)} statements")
        if statements[0].type != self._duckdb.StatementType.SELECT:
            kind = str(statements[0].type).rpartition(".")[2]
            raise UsageError(f"a query is one SELECT, and reads only; this is {kind}")
        return f"select * from (\n{statements[0].query.rstrip().rstrip(';')}\n) limit {self._limits.rows + 1}"

    def _refuse_more(self, rows: int) -> None:
        if rows > self._limits.rows:
            raise UsageError(
                f"the answer has more than {self._limits.rows:,} rows; add LIMIT or GROUP BY, or raise --max-rows"
            )

    def _within_limits(self, query: str, ask: Callable[[], T]) -> T:
        """Run a query in a thread of its own, and interrupt it when its time is over.

        Raises:
            UsageError: It failed, or takes too long.
        """
        self._limited(query)  # what is wrong with it is said before anything is locked
        if self._writes is not None:
            path = str(self._writes).replace("'", "''")
            self._run(f"set allowed_paths = ['{path}']")
        self._run(*_LOCKS)
        results: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(ask())
            except BaseException as error:  # raised again below, in the thread of the caller
                errors.append(error)

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        try:
            worker.join(self._limits.seconds)
            is_late = worker.is_alive()
        except KeyboardInterrupt:
            self._stop(worker)
            raise
        if is_late:
            self._stop(worker)
            raise UsageError(
                f"the query takes longer than {self._limits.seconds:g} s; ask for less, or raise --max-seconds"
            )
        if errors:
            raise self._told(errors[0]) from None
        return results[0]

    def _stop(self, worker: threading.Thread) -> None:
        self._connection.interrupt()
        worker.join(_GRACE_S)
        self._is_stuck = worker.is_alive()

    def _told(self, error: BaseException) -> BaseException:
        """The error in one line, in the words of this program where a limit was reached."""
        if isinstance(error, self._duckdb.OutOfMemoryException):
            return UsageError(
                f"the query needs more than {self._limits.memory_mb:,} MB of memory; ask for less, or raise "
                "--max-memory-mb"
            )
        if isinstance(error, self._duckdb.PermissionException):
            return UsageError("a query reads the tables of the trace only, and neither files nor addresses")
        if isinstance(error, self._duckdb.Error):
            return UsageError(_said(error))
        return error


def _said(error: Exception) -> str:
    """What DuckDB says of a query, without the picture of the line."""
    words = " ".join(_PLACE.split(str(error))[0].split())
    kind, _, rest = words.partition(": ")
    if missing := _NO_TABLE.search(words):
        return f"the query: there is no table {missing[1]}; docs/query.md lists the tables, and so does SHOW TABLES"
    return f"the query: {_OWN_TABLE.sub(lambda name: name[1], rest if kind.endswith('Error') else words)}"


def identifier(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL quotes it."""
    return "'" + text.replace("'", "''") + "'"


def joined(parts: Sequence[str]) -> str:
    """Selections of equal columns as one."""
    return "\nunion all by name\n".join(parts)
