"""Dumps of the flight recorder are read as plain data; a hostile file costs one line, and nothing of it runs."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.builders.damage import Runs
from tests.builders.flight_recorder import FlightRun, as_torch
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import sniffing
from traceanalyzer.inputs.opening import open_source
from traceanalyzer.readers import flight_recorder, plain_data
from traceanalyzer.trace.flight_recorder import COMPLETED, SCHEDULED, FlightDump, GroupCounters, RecordedGroup


def read(file: Path) -> FlightDump:
    with open_source(file) as source:
        return flight_recorder.read(source)


def run_of_two() -> FlightRun:
    run = FlightRun(2, first=40)
    run.group("7", "TENSOR", (0, 1))
    run.collective("all_reduce", shape=(4, 8), dtype="BFloat16")
    run.collective("_all_gather_base", "7", absent=(1,))
    run.send(0, 1, only="send")
    return run


@pytest.mark.parametrize("form", ["torch", "pickle", "json"])
def test_entries_groups_and_counters(tmp_path: Path, form: str) -> None:
    folder = run_of_two().write(tmp_path, form=form)
    found = read(folder / "nccl_trace_rank_0")
    operations = found.operations
    assert (found.rank, found.version, found.losses) == (0, "2.9", ())
    assert found.groups == (RecordedGroup("0", "default_pg", (0, 1)), RecordedGroup("7", "TENSOR", (0, 1)))
    assert list(operations.sequence) == [41, 41, 1]
    assert list(operations.group) == [0, 1, 0]
    assert list(operations.is_p2p) == [False, False, True]
    assert list(operations.state) == [COMPLETED, SCHEDULED, SCHEDULED]
    assert found.texts[operations.name[1]] == "nccl:_all_gather_base"
    assert (found.texts[operations.shape[0]], found.texts[operations.dtype[0]]) == ("[4, 8]", "BFloat16")
    assert list(operations.line) == [-1, -1, -1]
    assert found.counters == {"7": GroupCounters(41, 40)}  # the other group has point-to-point operations, too


def test_the_line_of_the_program_is_the_innermost_of_the_user(tmp_path: Path) -> None:
    content = run_of_two().dump(0)
    content["entries"][0]["frames"] = [
        {"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 1},
        {"name": "step", "filename": "/home/me/train.py", "line": 17},
        {"name": "<module>", "filename": "/home/me/main.py", "line": 3},
    ]
    file = tmp_path / "_dump_3"
    file.write_bytes(pickle.dumps(content, protocol=4))
    found = read(file)
    assert found.texts[found.operations.line[0]] == "/home/me/train.py(17): step"
    assert found.rank == 3


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("comm_lib_trace_rank_3", 3),
        ("hccl_trace_rank_0", 0),
        ("job7_dump_15", 15),
        ("_dump_2.pickle", 2),
        ("nccl_trace_rank_4.json.gz", 4),
        ("dump", None),
    ],
)
def test_ranks_of_names(name: str, rank: int | None) -> None:
    assert flight_recorder.rank_of_name(name) == rank


def test_unknown_fields_values_and_versions_are_no_error(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "version": "9.1",
        "entries": [{"state": 7, "is_p2p": "x", "input_sizes": {"a": 1}, "time_created_ns": "now"}, 5, None],
        "pg_config": {"0": 3, "1": {"ranks": [0, 1]}},
        "pg_status": [1],
    }
    file = tmp_path / "_dump_0"
    file.write_bytes(pickle.dumps(odd))
    found = read(file)
    assert {loss.id: loss.count for loss in found.losses} == {"read-flight-damaged": 2, "read-flight-version": 1}
    assert list(found.operations.created_ns) == [-1]
    assert found.groups[1] == RecordedGroup("1", "", (0, 1))


_KEYS = b"\x80\x02}(X\x09\x00\x00\x00pg_config"
HOSTILE = {
    "os.system": pickle.dumps({"pg_config": Runs(os.system, "touch hacked")}, protocol=2),
    "os.system, protocol 4": pickle.dumps({"pg_config": Runs(os.system, "touch hacked")}, protocol=4),
    "eval": pickle.dumps({"pg_config": Runs(eval, "open('hacked', 'w')")}, protocol=2),
    "global alone": _KEYS + b"cos\nsystem\n.",
    "instance": _KEYS + b"(ios\nsystem\n.",
    "extension": _KEYS + b"\x82\x01.",
    "persistent": _KEYS + b"Px\n.",
    "memo bomb": _KEYS + b"r\xff\xff\xff\xff" * 5 + b".",
    "memo of nothing": _KEYS + b"j\xff\xff\xff\xff.",
    "long text": _KEYS + b"X\xff\xff\xff\xffabc.",
    "longer text": _KEYS + b"\x8d" + b"\xff" * 8 + b"abc.",
    "long number": _KEYS + b"\x8b\xff\xff\xff\x7f.",
    "deep marks": _KEYS + b"(" * 1_000_000,
    "deep lists": _KEYS + b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
    "many nothings": _KEYS + b"N" * 3_000_000 + b".",
    "endless frames": _KEYS + (b"\x95" + bytes(8)) * 100_000,
    "cut": _KEYS,
    "no end": b"\x80\x02X\x09\x00\x00\x00pg_config" * 10,
    "protocol alone": b"\x80\x02pg_config",
    "dict of dicts": _KEYS + b"}}u.",
    "keys that are lists": b"\x80\x02}X\x09\x00\x00\x00pg_config0}(]K\x01u.",
    "items without a dict": b"\x80\x02X\x09\x00\x00\x00pg_config(K\x01K\x02u.",
    "a list": pickle.dumps(["pg_config"]),
    "other dict": pickle.dumps({"a": "pg_config"}),
    "cut JSON": b'{"pg_config": {',
    "deep JSON": b'{"pg_config": ' + b"[" * 100_000,
    "many values of JSON": b'{"pg_config": [' + b"[]," * 3_000_000 + b"[]]}",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "_dump_0"
    file.write_bytes(HOSTILE[case])
    assert flight_recorder.begins(HOSTILE[case])
    tracemalloc.start()
    with pytest.raises(UnusableInputError) as error:
        read(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert not (tmp_path / "hacked").exists()
    assert peak < (500 << 20)


def test_plain_data_of_python_reads_as_python_reads_it() -> None:
    data: dict[str, Any] = {
        "a": [1, -1, 255, 70000, -(2**40), 2**62, 1.5, None, True, False],
        "б": ("x", ()), "c": ["x", ["x", {}]], "d": (1,), "e": (1, 2), "f": (1, 2, 3), "g": (1, 2, 3, 4), "h": {1: 2},
        "long": "y" * 400,
    }  # fmt: skip
    for protocol in range(2, 6):
        found = plain_data.loads(pickle.dumps(data, protocol=protocol))
        assert found == {**data, "h": {"1": 2}}


def test_a_pickle_of_torch_is_the_same_data() -> None:
    content = run_of_two().dump(0)
    content["entries"][0]["input_sizes"] = [[1, 300, 70000, -5], [], [2]]
    content["entries"][1]["input_sizes"] = [[1, 300, 70000, -5], [7]]
    assert plain_data.loads(as_torch(content)) == plain_data.loads(pickle.dumps(content)) == content


def test_damage_never_escapes() -> None:
    data = as_torch(run_of_two().dump(0))
    outcomes = set()
    for place in range(len(data)):
        for value in (0, 40, 255):
            damaged = data[:place] + bytes((value,)) + data[place + 1 :]
            try:
                outcomes.add(type(plain_data.loads(damaged)).__name__)
            except plain_data.NotPlainError as error:
                outcomes.add(str(error))
    assert {"dict", "is damaged or cut"} <= outcomes


def test_long_lists_that_many_entries_share_cost_little(tmp_path: Path) -> None:
    sizes = [[1] * 100_000] * 1000
    entries = [{"input_sizes": sizes, "input_dtypes": ["x"] * 1000} for _ in range(200)]
    file = tmp_path / "_dump_0"
    file.write_bytes(pickle.dumps({"entries": entries, "pg_config": {}}, protocol=2))
    assert len(max(read(file).texts, key=len)) < 5000


def test_traces_and_reports_are_no_dumps() -> None:
    assert not flight_recorder.begins(b'{"traceEvents": [], "pg_config": 1}')
    assert not flight_recorder.begins(json.dumps({"entries": []}).encode())
    assert not flight_recorder.begins(struct.pack("<Q", 5))


@pytest.mark.parametrize("form", ["pickle", "json"])
@pytest.mark.parametrize("is_list", [False, True])
def test_dumps_of_the_first_versions_have_entries_alone(tmp_path: Path, form: str, is_list: bool) -> None:
    kept = ("frames", "profiling_name", "time_created_ns", "input_sizes", "output_sizes", "state", "retired", "pg_id")
    entries = [
        {key: entry[key] for key in kept if key in entry} | {"seq_id": entry["collective_seq_id"]}
        for entry in run_of_two().dump(0)["entries"]
    ]
    content: Any = entries if is_list else {"version": "2.0", "entries": entries}
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps(content, protocol=2) if form == "pickle" else json.dumps(content).encode())
    with file.open("rb") as opened:
        assert sniffing.peek(opened, file.name, file.stat().st_size).kind is sniffing.FileKind.FLIGHT_DUMP
    found = read(file)
    assert [loss.id for loss in found.losses] == (["read-flight-version"] if is_list else [])
    assert list(found.operations.sequence) == [41, 41, 41]
    assert list(found.operations.is_p2p) == [False, False, True]
    assert [group.name for group in found.groups] == ["0", "1"]


def test_the_time_of_the_device_is_read(tmp_path: Path) -> None:
    content = run_of_two().dump(0)
    for entry, duration in zip(content["entries"], (1.5, 3, "x"), strict=True):
        entry["duration_ms"] = duration
    file = tmp_path / "_dump_0"
    file.write_bytes(pickle.dumps(content, protocol=2))
    assert list(read(file).operations.duration_ns) == [1_500_000, 3_000_000, -1]
