"""Reads dumps of torch's flight recorder, pickled or as JSON, into columns.

    values    entries and groups of a dump become columns
    watchdog  what watchdogs say in the log of a job

The format is that of `torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`; versions 2.1 to 2.9 were seen. Fields that
a version does not have are unknown; a dump of another version is read by its keys.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import plain_data
from traceanalyzer.readers.flight_recorder import values
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.flight_recorder import FlightDump

__all__ = ["begins", "rank_of_name", "read"]

_LARGEST = 512 << 20
"""Bytes of the largest dump that is read (own choice; 20,000 entries with frames are a tenth of it)."""
_KEYS = re.compile(
    rb"pg_config|pg_status|nccl_version|collective_seq_id|comm_lib_version|hccl_version|profiling_name|time_created_ns"
)
_JSON_KEYS = re.compile(rb'"(?:' + _KEYS.pattern + rb')"\s*:')
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_RANK = re.compile(r"(?:rank|dump)[-_]?(\d{1,7})(?:\.[a-z.]*)?\Z", re.IGNORECASE)
_OWN_NAME = re.compile(r"(?:(?:nccl|hccl|xccl|comm_lib)_)?(?:trace_rank|dump)[-_]?\d{1,7}.*", re.IGNORECASE)


def begins(head: bytes) -> bool:
    """Whether a file begins like a dump of the flight recorder."""
    if head.startswith(plain_data.PROTOCOLS):
        return _KEYS.search(head) is not None
    is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"["))
    return is_json and _JSON_KEYS.search(head) is not None and not _EVENTS.search(head)


def rank_of_name(name: str) -> int | None:
    """The rank that the name of a dump ends with, such as `nccl_trace_rank_12`; None without a number."""
    found = _RANK.search(name.removesuffix(".gz"))
    return int(found[1]) if found else None


def _without_host(name: str) -> str:
    """The name of a dump without what stands before it, which is often the name of a host."""
    found = _OWN_NAME.search(name)
    return found[0] if found else name


def read(source: Source) -> FlightDump:
    """Read a dump.

    Args:
        source: The file that torch wrote; its name says which rank it is of.

    Raises:
        UnusableInputError: It is damaged, holds more than plain data, or is none.
    """
    data = source.peek(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UnusableInputError(f"{source.name}: is larger than {_LARGEST >> 20} MiB, which no flight recorder writes")
    try:
        content = plain_data.loads(data) if data.startswith(plain_data.PROTOCOLS) else plain_data.loads_json(data)
    except plain_data.NotPlainError as error:
        raise UnusableInputError(
            f"{source.name}: is not a dump of the flight recorder that can be read: it {error}"
        ) from None
    dump = values.dump_of(content, _without_host(source.name), rank_of_name(source.name), source.size_bytes)
    if dump is None:
        raise UnusableInputError(
            f"{source.name}: has neither entries nor groups of the flight recorder; give a file that torch wrote with "
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1"
        )
    return replace(dump, losses=(*dump.losses, *source.losses)) if source.losses else dump
