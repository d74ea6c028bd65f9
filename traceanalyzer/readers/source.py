"""Reads bytes from a file, standard input, or a gzip stream of either (RFC 1952); UTF-16 and UTF-32 become UTF-8."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import encodings
from traceanalyzer.trace.model import Loss

inflate_library: Any = zlib
with contextlib.suppress(ImportError):  # two to three times the speed of zlib, with the same interface
    inflate_library = importlib.import_module("isal.isal_zlib")

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_COMPRESSED_CHUNK = 1 << 14
"""Deflate makes at most a thousand times as much of it, which has to be held."""

_STRETCH = 16 << 20
_DENSEST = 500
"""A stretch of this many bytes out of less than its 500th is not a text of a profiler, whatever it says: events differ
in their times, and unpack to ten or twenty times their size. Deflate reaches 1032 for one byte over and over."""

_PEEK_CHUNK = 1 << 20
"""A read allocates the requested size, however little data there is."""

_ALIKE = 0.75
"""Least similarity, from 0 to 1, of a missing name and the one that was meant (own choice: a few letters differ)."""
_RECODED_PIECE = 1 << 16

_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16


class Source(io.RawIOBase):
    """A readable stream of decompressed bytes, in UTF-8 if they are text, with its name, its size and its losses."""

    def __init__(self, raw: IO[bytes], name: str, size_bytes: int | None, progress: Callable[[int], None]) -> None:
        super().__init__()
        self.name, self.size_bytes = name, size_bytes
        self.losses: list[Loss] = []
        self._raw, self._progress = raw, progress
        self._head = raw.read(2)
        self._gzip = _Gunzip(self._compressed, self.losses, name) if self._head == _GZIP_MAGIC else None
        self._peeked = b""
        self._fill: Callable[[memoryview], int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read (known only before the first read)."""
        return not self._head

    @property
    def is_gzip(self) -> bool:
        """Whether the input is compressed."""
        return self._gzip is not None

    def readable(self) -> bool:
        """True, as for every source."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the input reaches; 0 at the end."""
        view = memoryview(buffer).cast("B")
        if self._fill is None:
            self._fill = self._begin()
        filled = min(len(self._peeked), len(view))
        view[:filled], self._peeked = self._peeked[:filled], self._peeked[filled:]
        while filled < len(view):
            count = self._fill(view[filled:])
            if not count:
                break
            filled += count
        return filled

    def peek(self, size: int) -> bytes:
        """The next bytes, at most `size`, without using them up; fewer only at the end."""
        pieces, self._peeked = [self._peeked], b""
        length = len(pieces[0])
        while length < size and (piece := self.read(min(size - length, _PEEK_CHUNK))):
            pieces.append(piece)
            length += len(piece)
        self._peeked = b"".join((*pieces, self._peeked))  # the first read may leave some of what told the encoding
        return self._peeked[:size]

    def _begin(self) -> Callable[[memoryview], int]:
        """What fills buffers, as the first bytes tell.

        Raises:
            UnusableInputError: They are text in an encoding that has no mark of its own.
        """
        unpacked = self._gzip.readinto if self._gzip else self._plain
        head, filled = memoryview(bytearray(encodings.HEAD)), 0
        while filled < len(head) and (count := unpacked(head[filled:])):
            filled += count
        begun = bytes(head[:filled])
        if unmarked := encodings.unmarked(begun):
            raise UnusableInputError(
                f"{self.name}: is text in {unmarked} without a byte order mark; save it as UTF-8 "
                f"(iconv -f {unmarked} -t UTF-8)"
            )
        if encoding := encodings.marked(begun):
            return _Recoded(unpacked, encodings.recoder(encoding), begun).readinto
        self._peeked = begun
        return unpacked

    def _plain(self, view: memoryview) -> int:
        if self._head:
            head, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(head)] = head
            return len(head)
        count = self._raw.readinto(view)  # type: ignore[attr-defined]  # every binary file object has it
        self._progress(count or 0)
        return count or 0

    def _compressed(self) -> bytes:
        head, self._head = self._head, b""
        data = head + self._raw.read(_COMPRESSED_CHUNK)
        self._progress(len(data))
        return data


class _Recoded:
    """Text in another encoding as UTF-8, piece by piece."""

    def __init__(self, fill: Callable[[memoryview], int], recode: Callable[[bytes], bytes], begun: bytes) -> None:
        self._fill, self._recode = fill, recode
        self._piece = memoryview(bytearray(_RECODED_PIECE))
        self._output = memoryview(recode(begun))

    def readinto(self, view: memoryview) -> int:
        while not self._output:
            count = self._fill(self._piece)
            if not count:
                return 0
            self._output = memoryview(self._recode(bytes(self._piece[:count])))
        count = min(len(self._output), len(view))
        view[:count], self._output = self._output[:count], self._output[count:]
        return count


class _Gunzip:
    """Decompresses gzip members one after another; damage ends the stream and is noted, never raised.

    Works on raw deflate with its own header and checksum handling, because zlib's gzip mode throws away
    the last block that it inflated when the checksum after it is wrong.
    """

    def __init__(self, fill: Callable[[], bytes], losses: list[Loss], name: str) -> None:
        self._fill, self._losses, self._name = fill, losses, name
        self._input = b""
        self._output = memoryview(b"")
        self._packed, self._unpacked = 0, 0  # bytes of the stretch
        self._inflate: Any = None
        self._crc = 0
        self._members = 0
        self._ended = False

    def readinto(self, view: memoryview) -> int:
        while not self._output:
            if self._ended:
                return 0
            self._advance()
        count = min(len(self._output), len(view))
        view[:count], self._output = self._output[:count], self._output[count:]
        return count

    def _advance(self) -> None:
        if self._inflate is None:
            self._open_member()
            return
        if not self._input:
            self._input = self._fill()
        if not self._input:
            self._finish("read-gzip-truncated")
            return
        try:
            self._output = memoryview(self._inflate.decompress(self._input))
        except (zlib.error, inflate_library.error):
            self._finish("read-gzip-damaged")
            return
        self._crc = inflate_library.crc32(self._output, self._crc)
        self._refuse_bombs(len(self._input) - len(self._inflate.unused_data))
        self._input = self._inflate.unused_data
        if self._inflate.eof:
            self._close_member()

    def _refuse_bombs(self, packed: int) -> None:
        """Raise an error if a very small input unpacks to a very large output, before it is processed."""
        self._packed += packed
        self._unpacked += len(self._output)
        if self._unpacked < _STRETCH:
            return
        if self._unpacked > _DENSEST * self._packed:
            raise UnusableInputError(
                f"{self._name}: is not a trace: {self._packed:,} compressed bytes unpack to {self._unpacked:,}, "
                f"{self._unpacked // max(self._packed, 1):,} times as many, which no trace of a profiler does; "
                "give the file that torch.profiler exported"
            )
        self._packed, self._unpacked = 0, 0

    def _open_member(self) -> None:
        header = self._take(10)
        if not header:
            self._ended = True
            return
        if len(header) < 10 or header[:2] != _GZIP_MAGIC or not self._skip_optional_fields(header[3]):
            self._finish("read-gzip-trailing" if self._members else "read-gzip-truncated")
            return
        self._inflate = inflate_library.decompressobj(wbits=-15)
        self._crc = 0
        self._members += 1

    def _close_member(self) -> None:
        trailer = self._take(8)
        if len(trailer) < 8:
            self._finish("read-gzip-truncated")
        elif int.from_bytes(trailer[:4], "little") != self._crc:
            self._losses.append(Loss("read-gzip-checksum", 1))
        self._inflate = None

    def _skip_optional_fields(self, flags: int) -> bool:
        if flags & _FEXTRA:
            size = int.from_bytes(self._take(2), "little")
            if len(self._take(size)) < size:
                return False
        for flag in (_FNAME, _FCOMMENT):
            if flags & flag and not self._skip_text():
                return False
        return not flags & _FHCRC or len(self._take(2)) == 2

    def _skip_text(self) -> bool:
        """Skip up to the next zero byte; False if there is none."""
        while (end := self._input.find(0)) < 0:
            self._input = self._fill()
            if not self._input:
                return False
        self._input = self._input[end + 1 :]
        return True

    def _take(self, size: int) -> bytes:
        while len(self._input) < size and (more := self._fill()):
            self._input += more
        taken, self._input = self._input[:size], self._input[size:]
        return taken

    def _finish(self, loss: str) -> None:
        self._losses.append(Loss(loss, 1))
        self._ended = True


def _no_progress(count: int) -> None:
    del count


@contextmanager
def open_source(path: str | Path, progress: Callable[[int], None] = _no_progress) -> Iterator[Source]:
    """Open a file, or standard input for "-".

    Args:
        path: File to read; gzip is recognized by its content, not by its name.
        progress: Called with the number of input bytes after each read.

    Raises:
        UnusableInputError: missing, a directory, not readable, or empty.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise UnusableInputError("stdin: is closed; give a file")
        yield _nonempty(Source(sys.stdin.buffer, "stdin", None, progress))
        return
    if not str(path):
        raise UnusableInputError("an input has an empty name; give a file")
    file = Path(path)
    name = os.fsencode(file.name).decode("utf-8", "replace")  # a name that is not valid text must not stop a report
    try:
        if file.is_dir():
            raise UnusableInputError(f"{file}: is a directory; give a file in it")
        with file.open("rb", buffering=0) as raw:
            yield _nonempty(Source(raw, name, file.stat().st_size, progress))
    except FileNotFoundError:
        raise UnusableInputError(f"{file}: no such file{meant_instead(str(file))}") from None
    except OSError as error:
        raise UnusableInputError(f"{file}: cannot be read: {error.strerror or error}") from None


def meant_instead(path: str) -> str:
    """A question that ends the error about a missing path: the most similar name in its folder, or nothing.

    Where the folder is missing, too, the question is about the first part of the path that is.
    """
    parent, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - text paths: names may be no UTF-8
    while parent != os.path.dirname(parent) and not os.path.isdir(parent):  # noqa: PTH112, PTH120
        parent, name = os.path.split(parent)
    with contextlib.suppress(OSError):
        near = difflib.get_close_matches(name, sorted(os.listdir(parent)), 1, _ALIKE)  # noqa: PTH208
        if near:
            meant = os.path.join(parent, near[0])  # noqa: PTH118
            shown = meant if os.path.isabs(path) else os.path.relpath(meant)  # noqa: PTH117
            return f"; did you mean {os.fsencode(shown).decode('utf-8', 'replace')}?"
    return ""


def _nonempty(source: Source) -> Source:
    if source.is_empty:
        raise UnusableInputError(f"{source.name}: is empty (0 bytes)")
    return source
