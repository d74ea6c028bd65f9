"""File names: which names may be inputs, and the names of their reports."""

from __future__ import annotations

import os
import re

TRACE_SUFFIXES = (".json", ".json.tmp", ".tmp")
TEXT_SUFFIXES = (".txt", ".md", ".log")
CAPTURED_TABLES = ".key_averages.txt"
"""Suffix of the tables that a capture writes beside each trace."""
_COMPRESSED = ".gz"

_TRACE_NAME = re.compile(r"(?<![a-z])trace(?![a-z])|(?<![a-z])rank[-_]?\d|kineto|\.json\.tmp$")
_LONGEST_PART = 150
"""Most bytes of one part of a path; with a hash and two suffixes it stays below 255, the limit of file systems."""

_DIGEST = 12
_RESERVED = frozenset('<>:"\\|?*')
"""Names and characters that Windows does not allow, but object stores do."""


def plain_name(name: str) -> str:
    """The name in lower case without a compression suffix."""
    return name.lower().removesuffix(_COMPRESSED)


def may_be_input(name: str) -> bool:
    """Whether a file of this name in a folder may be a trace or a document."""
    return not name.startswith(".") and plain_name(name).endswith(TRACE_SUFFIXES + TEXT_SUFFIXES)


def looks_like_trace(name: str) -> bool:
    """Whether the name is that of a trace, so that a file without trace content counts as damaged."""
    return _TRACE_NAME.search(plain_name(name)) is not None


def safe(path: str) -> str:
    """Turn a path into a relative one, with "/" between its parts, that is valid on all file systems and in HTML.

    Plain names are kept. In other names unsafe characters are replaced, and a hash is added to keep names distinct.
    """
    return "/".join(_safe_part(part) for part in path.split("/"))


def _safe_part(part: str) -> str:
    is_plain = part.isprintable() and not _RESERVED & set(part) and not part.startswith(".") and part == part.strip(" ")
    data = os.fsencode(part)
    if is_plain and len(data) <= _LONGEST_PART:
        return part
    import hashlib  # noqa: PLC0415 - only for names that are not plain

    kept = "".join(c if c.isprintable() and c not in _RESERVED else "_" for c in part).strip(". ")
    short = kept.encode()[: _LONGEST_PART - _DIGEST - 1].decode("utf-8", "ignore")
    return f"{short}-{hashlib.sha256(data).hexdigest()[:_DIGEST]}"


def report_name(name: str, suffix: str) -> str:
    """Path of the report of a file, relative to the folder of the reports.

    It depends only on the file's own name, so that adding files changes no name.
    """
    return f"{name}.report{suffix}"
