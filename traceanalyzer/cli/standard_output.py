"""Standard output: documents are UTF-8, a full disk gives a one-line error, and a closed pipe is not an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from traceanalyzer.errors import OutputError


def put(text: str) -> None:
    """Print a document as UTF-8 whatever the console's encoding, because the output goes to a file or a program."""
    with guarded():
        if sys.stdout.isatty():
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
