"""Says what a file is that this program does not read, by magic bytes, keys and columns, and what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from traceanalyzer.inputs import discovery
from traceanalyzer.readers import flight_recorder, memory_snapshot, plain_data

HEAD = 1 << 16
"""Number of bytes that tell what a file is."""

_SEARCHED = 1 << 13
"""Number of bytes in which keys of JSON and columns are looked for."""

_NAMED = 3
"""Files of a folder that an error names."""
_MOST_FILES = 200
"""Files of a folder that are looked at for an error."""

_TRACE = "give what prof.export_chrome_trace('trace.json') writes for the same program"
_OF_NSYS = (
    "which only nsys reads; give the text that `nsys stats` prints of it, or what "
    "prof.export_chrome_trace('trace.json') writes for the same program"
)
_EVENTS = re.compile(rb'"traceEvents"\s*:|"ph"\s*:')

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"NVR\0", f"is a report of Nsight Compute, whose format only ncu reads; {_TRACE}"),
    (b"memray\0", f"is a recording of memray, which has allocations of Python alone; {_TRACE}, with profile_memory"),
    (b"PERFILE2", f"is a recording of perf, which samples the processor and sees no device; {_TRACE}"),
    (b"PAR1", f"is a table in Parquet, which no profiler of torch writes; {_TRACE}"),
    (b"ARROW1", f"is a table of Arrow, which no profiler of torch writes; {_TRACE}"),
    (b"\x89HDF\r\n\x1a\n", f"is an HDF5 file, which holds arrays and no events; {_TRACE}"),
    (b"\x93NUMPY", f"is an array of NumPy, which holds no events; {_TRACE}"),
    (b"GGUF", f"is a model (GGUF), which holds weights and no events; {_TRACE}"),
    (b"\x89PNG\r\n\x1a\n", f"is a picture (PNG), in which figures cannot be read; {_TRACE}, or the printed table"),
    (b"\xff\xd8\xff", f"is a picture (JPEG), in which figures cannot be read; {_TRACE}, or the printed table"),
    (b"GIF8", f"is a picture (GIF), in which figures cannot be read; {_TRACE}, or the printed table"),
    (b"%PDF-", f"is a PDF, which is laid out for people; {_TRACE}, or the printed table as text"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd, which is not unpacked here; unpack it first (zstd -d)"),
    (b"\xfd7zXZ\0", "is compressed with xz, which is not unpacked here; unpack it first (xz -d)"),
    (b"BZh91AY&SY", "is compressed with bzip2, which is not unpacked here; unpack it first (bzip2 -d)"),
    (b"\x04\x22\x4d\x18", "is compressed with lz4, which is not unpacked here; unpack it first (lz4 -d)"),
    (b"7z\xbc\xaf\x27\x1c", "is an archive (7z), which is not unpacked here; unpack it and give the trace in it"),
    (b"\x7fELF", f"is a program or a core dump (ELF), which holds no events; {_TRACE}"),
    (b":W&B", f"is a run of Weights & Biases, which holds what a program logged and no events; {_TRACE}"),
)
"""First bytes, and what they say; those of formats that need a second look are in `_LOOKS`."""

_CHECKPOINT = f"is a checkpoint of torch, which holds tensors and no events; {_TRACE}"
_PICKLE = (
    "is a pickle of Python, which is not opened because it may run code; give a trace as JSON, a dump of the flight "
    "recorder, or a memory snapshot"
)

_KEYS: tuple[tuple[str, str], ...] = (
    (
        r"speedscope\.app/file-format-schema",
        f"is a profile for speedscope (py-spy and others), which has no device; {_TRACE}",
    ),
    (
        r'"alloc_samples"|"max_footprint_mb"',
        f"is a profile of Scalene, which has lines of Python and no events; {_TRACE}",
    ),
    (
        r'"schema"\s*:\s*"[^"]*".{0,400}"nodes"\s*:',
        f"is an execution trace of torch (ExecutionTraceObserver), which has operators without device times; {_TRACE}",
    ),
    (r'"rocprofiler-sdk-tool"', f"is the JSON of rocprofv3, which has no operators; {_TRACE}"),
    (r'"weight_map"\s*:', f"is the index of a checkpoint, which holds names of tensors and no events; {_TRACE}"),
)
"""Keys of JSON objects, and what they say."""

_COLUMNS: tuple[tuple[str, str], ...] = (
    (
        r"(?:Name|name|key|Key)\W.*(?:self_)?(?:cpu_time_total|device_time_total|cuda_time_total)",
        "is a table of key_averages() as CSV, whose columns have no fixed names; give the trace, or the printed table",
    ),
    (
        r"Kernel_Name.*Start_Timestamp|KernelName.*(?:BeginNs|DurationNs)",
        f"is a table of rocprof, which has kernels and no operators; {_TRACE}",
    ),
    (
        r"Device Timing Results|L0 API|GPU_OP Timing|== Unitrace",
        f"is output of unitrace, which has no operators of torch; {_TRACE}",
    ),
    (
        r"Op Name,.*OP Type|Step Id,.*Op(?:erator)? Name|Task Start Time\(us\)|Device_id,.*(?:Computing|Free)",
        "is a table of the profiler of Ascend, which has no dependencies; give the trace_view.json beside it",
    ),
    (
        r'"?ID"?,"?Process ID"?,"?Process Name"?',
        f"is a table of Nsight Compute, which has metrics of kernels and no operators; {_TRACE}",
    ),
    (
        r"Start \(ns\),Duration \(ns\)",
        f"is a table of nsys stats of single events; give what nsys stats prints of cuda_gpu_kern_sum, or {_TRACE[5:]}",
    ),
    (
        r'"Step","[^"]* - [^"]*",.*__MIN"',
        f"is a table of Weights & Biases, which holds scalars and no events; {_TRACE}",
    ),
    (r"Wall time,Step,Value", f"is a table of TensorBoard, which holds scalars and no events; {_TRACE}"),
)
"""Columns of tables as text, and what they say."""

_TABLES = (".csv", ".tsv")
_SUFFIXES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (".nsys-rep", ".qdrep", ".qdstrm"),
        f"is a recording of Nsight Systems, {_OF_NSYS}",
    ),
    (
        (".pftrace", ".perfetto-trace"),
        f"is a trace of Perfetto in protobuf, which has no operators of torch; {_TRACE}",
    ),
    ((".xplane.pb",), f"is a profile of XLA (XPlane), which has no operators of torch; {_TRACE}"),
)
"""Ends of names, and what they say of a file whose content tells nothing."""


def described(head: bytes, name: str) -> str | None:
    """What a file is that this program does not read, why not, and what to give instead; None if it may be read.

    Args:
        head: The first bytes of the file, as many as `HEAD` where there are so many.
        name: Its name, for formats without a mark of their own.
    """
    for magic, said in _MAGIC:
        if head.startswith(magic):
            return said
    if said_of := next(filter(None, (look(head) for look in _LOOKS)), None):
        return said_of
    plain, lines = discovery.plain_name(name), head[:_SEARCHED].partition(b"\n")[0].decode("utf-8", "replace")
    if plain.endswith(_TABLES):
        return next((said for pattern, said in _COLUMNS if re.search(pattern, lines)), None)
    is_json = lines.lstrip()[:1] in ("{", "[")
    return None if is_json else next((said for ends, said in _SUFFIXES if plain.endswith(ends)), None)


def in_folder(folder: str) -> str:
    """The files of a folder that are known and not read, as the end of a sentence; empty if there are none."""
    try:
        files = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError:
        return ""
    said = ((path.name, described(_head_of(path), path.name)) for path in files[:_MOST_FILES])
    known = [f"{name} {re.split('[,;]', what)[0]}" for name, what in said if what]  # the file itself says the rest
    more = f" (and {len(known) - _NAMED} more)" if len(known) > _NAMED else ""
    return "; ".join(("", *known[:_NAMED])) + more


def _head_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _database(head: bytes) -> str | None:
    """A database of SQLite, by the tables that its first pages define."""
    if not head.startswith(b"SQLite format 3\0"):
        return None
    if b"CUPTI_ACTIVITY" in head or b"TARGET_INFO" in head or b"StringIds" in head:
        return f"is an export of Nsight Systems (SQLite), {_OF_NSYS}"
    if b"rocpd_" in head:
        return f"is a recording of rocprof (rocpd), which has no operators of torch; {_TRACE}"
    return f"is a database of SQLite, in which no trace is looked for; {_TRACE}"


def _archive(head: bytes) -> str | None:
    """A zip archive, by the names of its first files."""
    if not head.startswith(b"PK\x03\x04"):
        return "is an archive (tar), which is not unpacked here; unpack it first" if head[257:262] == b"ustar" else None
    if b"/data.pkl" in head[:512] or b"/byteorder" in head[:512]:
        return _CHECKPOINT
    if b"[Content_Types].xml" in head or b"xl/workbook.xml" in head:
        return "is a spreadsheet, as report -o x.xlsx writes for people; give the trace, or a report saved as .json"
    if b".npy" in head[:512]:
        return f"is an archive of arrays (npz), which holds no events; {_TRACE}"
    return "is an archive (zip), which is not unpacked here; unpack it and give the trace in it"


def _pickle(head: bytes) -> str | None:
    """A pickle of protocol 2 or later, by what stands at its beginning; dumps and snapshots are read."""
    if not head.startswith(plain_data.PROTOCOLS) or flight_recorder.begins(head) or memory_snapshot.begins(head):
        return None
    if b"l\xfc\x9cF\xf9 j\xa8P\x19" in head[:64] or b"ctorch" in head or b"torch._utils" in head:
        return _CHECKPOINT
    return _PICKLE


def _weights(head: bytes) -> str | None:
    """Safetensors: the length of a JSON object, and the object."""
    is_safetensors = head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32
    return f"is a checkpoint (safetensors), which holds tensors and no events; {_TRACE}" if is_safetensors else None


def _records(head: bytes) -> str | None:
    """Records of TensorBoard and XLA, which are protobuf."""
    if b"brain.Event:" in head[:64]:
        return f"is a log of TensorBoard, which holds scalars and no events; {_TRACE}"
    if head.startswith(b"\x0a") and re.search(rb"/host:(?:CPU|metadata)|/device:(?:GPU|TPU):\d", head):
        return f"is a profile of XLA (XPlane), which has no operators of torch; {_TRACE}"
    return None


def _picture(head: bytes) -> str | None:
    """Pictures whose mark is not the first bytes; SVG of a profiler is a flame graph."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return f"is a picture (WebP), in which figures cannot be read; {_TRACE}, or the printed table"
    if head.lstrip()[:5] == b"<?xml" or head.lstrip()[:4] == b"<svg":
        if b"<svg" not in head[:_SEARCHED] or b"<html" in head[:_SEARCHED]:
            return None
        what = "a flame graph (py-spy and others)" if b"py-spy" in head or b"samples" in head else "a picture (SVG)"
        return f"is {what}, which has no times of single events; {_TRACE}"
    return None


def _text(head: bytes) -> str | None:
    """JSON of other programs, and stacks."""
    begun = head[:_SEARCHED].removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"\0" in begun or _EVENTS.search(head):
        return None
    if begun[:1] == b"{":
        text = begun.decode("utf-8", "replace")
        return next((said for pattern, said in _KEYS if re.search(pattern, text, re.DOTALL)), None)
    if _STACKS.match(begun):
        return f"is a list of stacks (py-spy and others), which has no times of single events; {_TRACE}"
    return None


_STACKS = re.compile(rb"\A(?:[^\s;][^;\n]{0,300};){1,200}[^;\n]{1,300} \d+\n")
"""A line of collapsed stacks: frames with semicolons between them, and a number of samples."""

_LOOKS: Iterable[Callable[[bytes], str | None]] = (
    _database,
    _archive,
    _pickle,
    _weights,
    _records,
    _picture,
    _text,
)
