"""`traceanalyzer mcp`: a server of the Model Context Protocol over files below one folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer import config
from traceanalyzer._version import __version__
from traceanalyzer.cli import LONGEST_MESSAGE, one_line, parameters
from traceanalyzer.errors import MissingDependencyError, TraceAnalyzerError, UsageError
from traceanalyzer.report.names import shorten

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = (
    "Recordings of PyTorch programs below one folder. Begin with report; finding tells one finding whole, and query "
    "what the report does not say. After a change record again and call verify: a saving is a prediction until then."
)
_WAITING = "Waiting for a client on standard input (docs/agents.md); Ctrl+C ends."


@click.command("mcp")
@click.argument("folder", metavar="FOLDER", shell_complete=parameters.folders)
@parameters.quiet
def command(*, folder: str, quiet: bool) -> None:
    """Answer programs that read, over files below one folder.

    It speaks the Model Context Protocol on standard input and output. The tools are report, finding, diff, verify,
    whatif, ranks and query, as the commands of these names. Only files below FOLDER are read, and links that lead out
    of it are refused. Nothing is written, no address is opened, and each answer is bounded. It needs an extra: pip
    install 'torch-traceanalyzer[mcp]', and for query 'torch-traceanalyzer[mcp,sql]'.

    \b
    Examples:
      traceanalyzer mcp traces/

    \b
    Exit codes:
      0    the client has left
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: is no folder; name the one whose files may be read")
    made = server(Path(folder))
    if sys.stdin is not None and sys.stdin.isatty() and not quiet:
        click.echo(_WAITING, err=True)
    made.run("stdio")


def server(folder: Path) -> MCPServer:
    """A server whose tools read files below a folder.

    Raises:
        MissingDependencyError: The package mcp is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - an extra
        from mcp.types import ToolAnnotations  # noqa: PLC0415
    except ImportError:
        raise MissingDependencyError("mcp", extra="mcp") from None
    from traceanalyzer.cli.folder_tools import FolderTools  # noqa: PLC0415 - --help does not need it

    made = MCPServer("traceanalyzer", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    harmless = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for tool in FolderTools(folder, config.load()).tools:
        made.add_tool(_told(tool), annotations=harmless, structured_output=False)
    return made


def _told(tool: Callable[..., str]) -> Callable[..., str]:
    """The tool, whose errors are told the client in one line."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 - an extra

    @wraps(tool)
    def answered(**given: object) -> str:
        try:
            return tool(**given)
        except TraceAnalyzerError as error:
            raise ToolError(shorten(one_line(str(error)), LONGEST_MESSAGE)) from None
        except MemoryError:
            raise ToolError("there is not enough memory; cut the trace (traceanalyzer trim)") from None

    return answered
