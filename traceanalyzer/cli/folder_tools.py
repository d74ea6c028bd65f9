"""The tools of `traceanalyzer mcp`: questions about files below one folder, each with a bounded answer in text.

A path is resolved first and checked then, so no link, no `..` and no absolute path leads out of the folder; of a
folder, each link in it is checked. Nothing is written, no address is opened, and standard input belongs to the client.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from traceanalyzer import multirank, querying
from traceanalyzer.cli.report import ReportRequest, make
from traceanalyzer.comparison import diff
from traceanalyzer.comparison.snapshots import are_snapshots, diff_snapshots
from traceanalyzer.comparison.verification import verify
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.formats import brief, difference, one_finding, query_rows, verification, what_if
from traceanalyzer.formats.answers import Answer
from traceanalyzer.inputs import opening
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.prediction import whatif
from traceanalyzer.querying import QueryLimits, tables
from traceanalyzer.readers.source import STDIN
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace
from traceanalyzer.urls import was_url

LONGEST = 16_000
"""Most characters of an answer (own choice: twice a report in brief)."""
_ROWS = (20, 10, 5, 2)
"""Rows of a table, fewer until the answer is short enough."""
_QUERY = QueryLimits(rows=1_000, seconds=20.0, memory_mb=512)
"""What a question may take (own choice: an answer has no room for more rows)."""
_KEPT = 4
"""Reports that are kept for further questions about the same file."""


class FolderTools:
    """Answers questions about files below a folder; the docstring of each tool is what a client reads."""

    def __init__(self, folder: Path, config: Config) -> None:
        self._folder = folder.resolve()
        self._config = config
        self._one_at_a_time = threading.Lock()
        self._made = lru_cache(_KEPT)(self._make)

    @property
    def tools(self) -> tuple[Callable[..., str], ...]:
        """The tools, by their names."""
        return self.report, self.finding, self.diff, self.verify, self.whatif, self.ranks, self.query

    def report(self, path: str, top: int | None = None) -> str:
        """Report on one recording, in at most 8,000 characters of JSON. Call this first.

        It says what bounds the step, what to change, what each change saves as an interval, and what would refute it.

        Args:
            path: A trace, a saved report, a text with printed tables, or a folder with one run, below the folder of
                the server.
            top: Most findings with their evidence; as many as there is room for by default.
        """
        with self._one_at_a_time:
            return brief.render(self._report(path), top)

    def finding(self, path: str, id: str) -> str:  # noqa: A002 - the word that clients know
        """Tell one finding whole: evidence, places in the code, how the saving was estimated, when not to do it.

        Args:
            path: As of report.
            id: Id of the finding, from the report.
        """
        with self._one_at_a_time:
            return _bounded(one_finding.answer(self._report(path), id))

    def diff(self, before: str, after: str) -> str:
        """Compare two measurements of one program: faster, slower, no change or inconclusive, with what changed.

        Args:
            before: A trace, a saved report, a folder of captures or ranks, or a run of a text (notes.md#run-1).
            after: The same after a change.
        """
        with self._one_at_a_time:
            sides = self._inside(before), self._inside(after)
            if are_snapshots(*sides):
                return brief.render(diff_snapshots(*sides))
            return _bounded(difference.answer(diff(*sides, config=self._config)))

    def verify(self, before: str, after: str, findings: Sequence[str] = ()) -> str:
        """Check whether the fixes of findings gained what was predicted. Call this after each change.

        The outcome is confirmed, better, worse, refuted, not-done or cannot-tell; never trust a saving without it.

        Args:
            before: The recording with the findings.
            after: A recording of the same program after the change.
            findings: Ids of the findings that were worked on; all by default.
        """
        with self._one_at_a_time:
            sides = self._inside(before), self._inside(after)
            checked = verify(*sides, findings=findings, config=self._config)
            return f"Outcome: {checked.outcome}\n\n{_bounded(verification.answer(checked))}"

    def whatif(
        self,
        path: str,
        loader: float | None = None,
        speedup: dict[str, float] | None = None,
        gone: Sequence[str] = (),
        no_sync: Sequence[str] = (),
        bandwidth: float | None = None,
        overlap: bool = False,
        graphs: bool = False,
        ranks: Sequence[int] = (),
    ) -> str:
        """Predict the step with changes, by a replay of the recorded dependencies; without any, what would help most.

        Args:
            path: A trace, or a folder with the traces of all ranks of a run.
            loader: Waits for the loader take at most so many milliseconds.
            speedup: From a selector (an operator, a kernel, class:gemm, loader) to how many times as fast it is.
            gone: Selectors of what is gone, launches included.
            no_sync: Calls that no longer wait for the device; * for all.
            bandwidth: How many times as fast collectives are.
            overlap: Collectives overlap with computation.
            graphs: CUDA graphs launch all kernels of a step.
            ranks: Of several ranks, those that take no longer than the median of all.
        """
        with self._one_at_a_time:
            predicted = whatif(
                self._measured(path),
                loader=loader,
                speedup=speedup,
                gone=gone,
                no_sync=no_sync,
                bandwidth=bandwidth,
                overlap=overlap,
                graphs=graphs,
                ranks=ranks,
            )
            return _bounded(what_if.answer(predicted))

    def ranks(self, path: str) -> str:
        """Report on all ranks of one distributed run in at most 8,000 characters of JSON: who is late, who waits.

        Args:
            path: The folder with the traces, dumps or saved reports of all ranks.
        """
        with self._one_at_a_time:
            return brief.render(multirank.find([self._inside(path)]).report(self._config))

    def query(self, path: str, sql: str = "") -> str:
        """Ask the events of a trace what the report does not say; without a question, the tables and their columns.

        Args:
            path: A trace below the folder of the server.
            sql: One SELECT in the dialect of DuckDB; it reads the tables of the trace and nothing else.
        """
        with self._one_at_a_time:
            if not sql.strip():
                return tables.listed()
            trace = self._measured(path)
            if not isinstance(trace, Trace):
                raise UsageError(f"{path}: is a folder; name one trace")
            answer = querying.sql(trace, sql, limits=_QUERY, config=self._config)
            return _shortened(query_rows.table(answer))

    def _report(self, given: str) -> Report:
        """The report on a path; one of few that are kept, if the file is as it was."""
        path = self._inside(given)
        if Path(path).is_dir():
            return self._make(path, 0, 0)
        told = Path(path).stat()
        return self._made(path, told.st_mtime_ns, told.st_size)

    def _make(self, path: str, _changed_ns: int, _size: int) -> Report:
        asked = ReportRequest(StepChoice(), self._config, (), (), None, jobs=1)
        return make(path, asked, quiet=True).report

    def _measured(self, given: str) -> Trace | str:
        path = self._inside(given)
        if Path(path).is_dir():
            return path
        trace = opening.load(path)
        if not isinstance(trace, Trace):
            raise UsageError(f"{given}: has no events to replay; name a trace")
        return trace

    def _inside(self, given: str) -> str:
        """The resolved path of an input, which is below the folder, with the run of a document if one was named.

        Raises:
            UsageError: It is not below the folder, or a link in it leads out.
            UnusableInputError: There is no such file.
        """
        if given == STDIN or was_url(given) or "\0" in given:
            raise UsageError(f"{given}: only files below {self._folder} can be read")
        path, mark, run = self._resolved(given), "", ""
        if not os.path.lexists(path):
            file, mark, run = given.rpartition("#")
            path = self._resolved(file) if mark else path
        if os.path.isdir(path):  # noqa: PTH112 - False for names that are too long
            self._check_links(path)
        elif os.path.isfile(path):  # noqa: PTH113
            self._check_beside(path)
        else:
            raise UnusableInputError(f"{given}: no such file below {self._folder}")
        return f"{path}{mark}{run}"

    def _resolved(self, given: str | Path) -> Path:
        try:
            path = (self._folder / given).resolve()
        except (OSError, RuntimeError):  # links in a circle
            raise UnusableInputError(f"{given}: no such file below {self._folder}") from None
        if not path.is_relative_to(self._folder):
            raise UsageError(f"{given}: leads out of {self._folder}, and only files below it can be read")
        return path

    def _check_links(self, folder: Path) -> None:
        """Resolve each link in a folder, and in the folders to which links lead."""
        seen, left = set[Path](), [folder]
        while left:
            at = left.pop()
            seen.add(at)
            with os.scandir(at) as entries:
                for entry in entries:
                    target = self._resolved(entry.path) if entry.is_symlink() else Path(entry.path)
                    if target.is_dir() and target not in seen:
                        left.append(target)

    def _check_beside(self, file: Path) -> None:
        """Resolve links beside a file that begin with its name: a report also reads the stacks of its graphs."""
        stem = file.name.removesuffix(".gz").removesuffix(".json")
        with os.scandir(file.parent) as entries:
            for entry in entries:
                if entry.name.startswith(stem) and entry.is_symlink():
                    self._resolved(entry.path)


def _bounded(answer: Answer) -> str:
    """An answer as Markdown of bounded length; fewer rows first, then what is left out is counted."""
    texts = (answer.render("markdown", rows) for rows in _ROWS)
    return _shortened(next((text for text in texts if len(text) <= LONGEST), answer.render("markdown", _ROWS[-1])))


def _shortened(text: str) -> str:
    """A text of bounded length in whole lines; what is left out is counted."""
    if len(text) <= LONGEST:
        return text
    kept = text[:LONGEST].rpartition("\n")[0]
    return f"{kept}\n\n{len(text) - len(kept)} more characters are left out.\n"
