"""The names of the commands, and what is said of them and by them without a library."""

from __future__ import annotations

COMMANDS = {
    "report": "Report on one trace.",
    "finding": "Show one finding whole.",
    "render": "Show a saved report or difference in another format or language.",
    "export": "Write one trace as a file for another program.",
    "ranks": "Compare the ranks of one distributed run.",
    "batch": "Report on many traces.",
    "diff": "Compare two measurements.",
    "verify": "Check whether the fixes of findings gained what was predicted.",
    "whatif": "Predict what a step would take with changes.",
    "query": "Ask a trace a question in SQL.",
    "reproduce": "Write a program that repeats a recorded operator.",
    "capture": "Record training steps without changing the code.",
    "trim": "Cut a trace to some steps or a time range.",
    "anonymize": "Hash the names in a trace, so that it can be shared.",
    "mcp": "Answer programs that read, over files below one folder.",
    "rules": "List the rules, or explain one.",
}
"""Commands and their one-line help; each is a module of this package, imported when it is called."""

EXAMPLE = "report trace.json.gz"

COMPLETION = "_TRACEANALYZER_COMPLETE"
"""Environment variable with which a shell requests its completion script, and completions."""


def overview() -> str:
    """What `traceanalyzer --help` prints."""
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:{width}}{text}" for name, text in COMMANDS.items())
    return f"""\
Usage: traceanalyzer [OPTIONS] COMMAND [ARGS]...

  Where PyTorch's GPU time goes, what to change, and what the change is worth.
  Example:
    traceanalyzer {EXAMPLE}

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit; of a command with COMMAND --help.

Commands:
{commands}
"""


def one_line(message: str) -> str:
    """A message in one line without control characters, which file names may contain, and secrets of URLs."""
    if ":/" in message:
        from traceanalyzer.urls import without_secrets  # noqa: PLC0415 - `--help` needs no patterns

        message = without_secrets(message)
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(message.split()))
