"""Writes reports and differences where the user wants them: to the screen, to files, or into the browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import click
import msgspec

from traceanalyzer import formats, output
from traceanalyzer.cli import one_line, parameters
from traceanalyzer.cli.commits import ADDRESS
from traceanalyzer.config import SEVERITIES, Config
from traceanalyzer.errors import OutputError, UsageError
from traceanalyzer.formats import language
from traceanalyzer.formats.answers import Answer
from traceanalyzer.formats.language import Language
from traceanalyzer.inputs import discovery
from traceanalyzer.report.model import Report
from traceanalyzer.urls import is_url, path_of


def put(text: str, form: str) -> None:
    """Print a document as UTF-8 whatever the console's encoding, because the output goes to a file or a program.

    Args:
        text: The document.
        form: Its format. JSON holds names as they are, so that a terminal gets escapes for what it would act upon.
    """
    with guarded():
        if sys.stdout.isatty():
            if form in _JSON:
                from traceanalyzer.formats import json  # noqa: PLC0415 - only for these formats

                text = json.for_terminal(text)
            sys.stdout.write(text)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))


@contextmanager
def guarded() -> Iterator[None]:
    """Handle a closed pipe and a full disk for code that writes to standard output.

    Raises:
        OutputError: It is closed, or cannot be written. A pipe that its reader closed is `main`'s to handle.
    """
    if sys.stdout is None:
        raise OutputError("standard output: is closed; name a file with -o")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None


if TYPE_CHECKING:
    from traceanalyzer.formats.markdown import DocumentPicture

FOUND = 1
"""Exit code where a finding is as severe as `--fail-on` says."""

SCREEN = "-"

Texts = Mapping[str, Callable[[], str]]
_Command = TypeVar("_Command", bound=Callable[..., None])

_CHARTS = ("svg", "png")
_JSON = ("json", "brief", "sarif", "speedscope")


class Target(msgspec.Struct, frozen=True):
    """A file, a folder (of CSV files) or `-`, and its format."""

    path: str
    form: str


FIRST_SCREEN = Target(SCREEN, "terminal")


class Assets(msgspec.Struct, frozen=True):
    """Where to put charts as files, which the Markdown report links to."""

    folder: Path
    form: str
    """Format of the files: `svg` or `png`."""
    url: str | None = None
    """Address at which the folder will be found; None to link files relative to the report."""


class Delivery(msgspec.Struct, frozen=True):
    """How reports are written: language, format options, and whether to overwrite."""

    language: Language
    top: int | None = None
    force: bool = False
    quiet: bool = False
    assets: Assets | None = None
    page_url: str | None = None
    """Address of the page of the report, which Markdown links to."""
    commit: str | None = None
    """Commit of the program of the report, which Markdown names."""

    def deliver(self, report: Report, wanted: Sequence[Target], texts: Texts) -> None:
        """Write a report to every target.

        Args:
            report: The report.
            wanted: Where to.
            texts: Formats that are no rendering of the report, and what makes their text.
        """
        for target in wanted:
            if target.path == SCREEN:
                self._print(report, target.form, texts)
            else:
                self._write(report, target, texts)

    def _print(self, report: Report, form: str, texts: Texts) -> None:
        if form == "terminal":
            from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

            with guarded():
                terminal.show(report, sys.stdout, top=self.top, language=self.language)
        else:
            put(self._text(report, Target(SCREEN, form), texts), form)

    def _write(self, report: Report, target: Target, texts: Texts) -> None:
        path = Path(target.path)
        if target.form == "csv":
            self._write_folder(report, path)
        elif target.form == "xlsx":
            from traceanalyzer.formats import workbook  # noqa: PLC0415 - only for this format

            self.put_file(path, workbook.workbook(report, self.language))
        elif target.form == "json" and "json" not in texts:
            from traceanalyzer.formats import json  # noqa: PLC0415 - only for this format

            self.put_file(path, json.encode(report))
        else:
            self.put_file(path, self._text(report, target, texts))

    def _write_folder(self, report: Report, folder: Path) -> None:
        from traceanalyzer.formats import spreadsheet  # noqa: PLC0415 - only for this format

        make_folder(folder)
        for name, text in spreadsheet.csv_files(report, self.language).items():
            self.put_file(folder / name, text)

    def put_file(self, path: Path, content: str | bytes | Iterator[bytes]) -> None:
        """Write a file, and print its name."""
        if isinstance(content, str):
            output.write(path, content, force=self.force)
        else:
            with output.writing(path, force=self.force) as file:
                file.writelines((content,) if isinstance(content, bytes) else content)
        if not self.quiet:
            click.echo(f"Wrote {one_line(str(path))}", err=True)

    def _text(self, report: Report, target: Target, texts: Texts) -> str:
        if target.form in texts:
            return texts[target.form]()
        if target.form == "markdown":
            from traceanalyzer.formats import markdown  # noqa: PLC0415 - jinja2 is slow to import

            pictures = tuple(self._pictures(report, target, self.assets)) if self.assets is not None else ()
            origin = markdown.Origin(self.page_url, self.commit)
            return markdown.render(report, self.top, language=self.language, pictures=pictures, origin=origin)
        return formats.render(report, target.form, self.top, self.language)

    def _pictures(self, report: Report, target: Target, assets: Assets) -> Iterator[DocumentPicture]:
        """Write the charts, and say where they lie as seen from the document."""
        from traceanalyzer.formats import chart_files  # noqa: PLC0415 - only documents with charts need it
        from traceanalyzer.formats.markdown import DocumentPicture  # noqa: PLC0415

        document = Path("report.md" if target.path == SCREEN else target.path)
        make_folder(assets.folder)
        for asset in chart_files.draw_all(report, self.language, assets.form, document.stem):
            path = assets.folder / asset.name
            self.put_file(path, asset.data)
            url = f"{assets.url.rstrip('/')}/{quote(asset.name)}" if assets.url else _link(path, document.parent)
            yield DocumentPicture(asset.section, asset.text, url)


def deliver_answer(answer: Answer, wanted: Sequence[Target], top: int | None, *, force: bool, quiet: bool) -> None:
    """Write a difference or a prediction to files and the screen.

    Args:
        answer: What to write; it has the formats of the targets.
        wanted: Where to.
        top: Rows of each table; the format's own default if None.
        force: Whether files that are not ours are overwritten.
        quiet: Whether names of written files are not printed.
    """
    for target in wanted:
        if target.path != SCREEN:
            output.write(Path(target.path), answer.render(target.form, top), force=force)
            if not quiet:
                click.echo(f"Wrote {one_line(target.path)}", err=True)
        elif target.form == "terminal":
            with guarded():
                answer.show(sys.stdout, top)
        else:
            put(answer.render(target.form, top), target.form)


def make_folder(folder: Path) -> None:
    """Make a folder if it does not exist.

    Raises:
        OutputError: It cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be created: {error.strerror or error}") from None


def _link(path: Path, folder: Path) -> str:
    """From a folder to a file, as a relative URL."""
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:  # on Windows, another drive
        raise UsageError(
            f"--assets {path.parent}: cannot be linked; name a folder on the drive of the report"
        ) from None
    return quote(Path(relative).as_posix())


def assets_options(command: _Command) -> _Command:
    """The options of commands that write Markdown with charts in files."""
    folder = click.option(
        "--assets",
        metavar="DIR",
        shell_complete=parameters.folders,
        help="In Markdown: write charts as files to DIR and link them, instead of bars of text.",
    )
    form = click.option(
        "--assets-format",
        type=click.Choice(_CHARTS),
        help="Format of these charts; png becomes svg if no font has all characters  [default: svg].",
    )
    url = click.option(
        "--assets-url",
        metavar="URL",
        help="Address at which DIR will be found, such as for a comment in a pull request.",
    )
    return folder(form(url(command)))


def assets(folder: str | None, form: str | None, url: str | None, wanted: Sequence[Target]) -> Assets | None:
    """Where charts go, if they shall be files.

    Raises:
        UsageError: There is nothing that would show them.
    """
    if folder is None:
        if form is not None:
            raise UsageError("--assets-format needs the folder of the charts; name it with --assets DIR")
        if url is not None:
            raise UsageError("--assets-url needs the folder of the charts; name it with --assets DIR")
        return None
    if url is not None and ADDRESS.fullmatch(url) is None:
        raise UsageError(f"--assets-url {one_line(url)}: is no web address; it begins with https://")
    output.require_local(folder, "--assets")
    if all(target.form != "markdown" for target in wanted):
        raise UsageError("--assets writes the charts of a Markdown report; add -o report.md")
    return Assets(Path(folder), form or "svg", url)


def targets(
    outputs: Sequence[str],
    form: str | None,
    settled: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] = formats.EVERY,
) -> list[Target]:
    """Where to write and in which format; the screen without options.

    Args:
        outputs: Values of `-o`.
        form: Value of `--format`.
        settled: Formats in the configuration; the first one is for outputs whose names have no suffix of a format.
        known: Formats of the command, with their suffixes.

    Raises:
        UsageError: The format of an output is not known, or cannot be printed.
    """
    for path in outputs:
        output.require_local(path)
    if form is not None:
        _refuse_other_suffixes(outputs, form)
    wanted = [Target(path, form or _format_of(path, settled, known)) for path in outputs]
    wanted = wanted or [Target(SCREEN, form or "terminal")]
    for target in wanted:
        if target.path == SCREEN and target.form in (*formats.BINARY, "perfetto"):
            raise UsageError(f"--format {target.form} cannot be printed; name a file or folder with -o")
    return wanted


def _refuse_other_suffixes(outputs: Sequence[str], form: str) -> None:
    """Refuse files whose suffix is that of another format; a text may be .txt, and any JSON .json.

    Raises:
        UsageError: There is one.
    """
    own = formats.SUFFIXES[form]
    for path in outputs:
        suffix = PurePath(path).suffix.lower()
        if suffix not in own and suffix in (*formats.suffixes(formats.SUFFIXES), ".csv"):
            hint = f"a name that ends in {own[0]}" if own else "a folder"
            raise UsageError(
                f"{path}: its suffix says another format than --format {form}; use {hint}, or leave one out"
            )


def _format_of(path: str, settled: Sequence[str], known: Mapping[str, Sequence[str]]) -> str:
    if settled and not Path(path).suffix:
        return settled[0]
    if path == SCREEN:
        raise UsageError("-o - needs --format: standard output has no suffix")
    return formats.format_of(path, known)


def chosen_language(lang: str | None, settings: Config) -> Language:
    """The language of `--lang`, else that of the configuration.

    Raises:
        UsageError: There is no such language; the message names the option or the file.
    """
    try:
        return language.of(lang or settings.language)
    except UsageError as error:
        raise UsageError(f"--lang {error}" if lang else f"{settings.place('language')}: {error}") from None


def exit_if_found(report: Report, fail_on: str | None) -> None:
    """End with exit code 1 if a finding is as severe as wanted, or more.

    Rules in preview do not count, nor what a later run of a document has settled.
    """
    if fail_on is None:
        return
    from traceanalyzer.sections import several_runs  # noqa: PLC0415 - a report as JSON needs no sections

    worst = SEVERITIES.index(fail_on)
    done = several_runs.settled(report)
    counted = [f for n, f in enumerate(report.findings) if f.stage != "preview" and n not in done]
    if any(SEVERITIES.index(finding.severity) >= worst for finding in counted):
        sys.exit(FOUND)


def require_formats_of_differences(wanted: Sequence[Target]) -> None:
    """Refuse formats that only reports have.

    Raises:
        UsageError: One of them.
    """
    from traceanalyzer.formats import difference  # noqa: PLC0415 - only differences need it

    for target in wanted:
        if target.form not in difference.FORMATS:
            raise UsageError(f"{target.path}: a difference has no format {target.form}; use .html, .md or .json")


# `--open`: the HTML page in the browser.

_FORM = "html"


def with_page(wanted: Sequence[Target], source: str, *, is_chosen: bool) -> list[Target]:
    """The targets, with a page if the user chose no files.

    Args:
        wanted: Where to write.
        source: What the report is about: a file, a folder or `-`.
        is_chosen: Whether the user has chosen where to write.

    Raises:
        UsageError: The user wants files, and none of them is a page.
    """
    if any(_is_page(target) for target in wanted):
        return list(wanted)
    if is_chosen or wanted[0].form not in ("terminal", _FORM):
        raise UsageError("--open shows the HTML report, and none is written; add -o report.html")
    return [Target(f"{_name(source)}.html", _FORM)]


def open_page_of(written: Sequence[Target]) -> None:
    """Open the first page of what was written."""
    open_file(next(Path(target.path) for target in written if _is_page(target)))


def open_file(page: Path) -> None:
    """Open a page; without a browser, print where the page is."""
    import webbrowser  # noqa: PLC0415 - only where a page is opened

    try:
        is_shown = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_shown = False
    if not is_shown:
        click.echo(f"No browser was found; open {one_line(str(page))} in one", err=True)


def _is_page(target: Target) -> bool:
    return target.form == _FORM and target.path != SCREEN


def _name(source: str) -> str:
    """File name of the page about an input: the input's name without the suffixes of traces and texts."""
    if source == SCREEN:
        return "report"
    name = PurePath(path_of(source)).name if is_url(source) else Path(source).resolve().name
    if name.lower().endswith(".gz"):
        name = name[: -len(".gz")]
    for suffix in (*discovery.TRACE_SUFFIXES, *discovery.TEXT_SUFFIXES):
        name = name.removesuffix(suffix)
    return name or "report"
