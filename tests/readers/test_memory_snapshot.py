"""Memory snapshots are read into columns; whatever a file holds, none of it runs, and it costs little."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict

from tests.builders.damage import Runs
from tests.builders.memory_snapshot import FORWARD, MIB, TRAIN, MemoryRecorder, read
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers import memory_snapshot, plain_data
from traceanalyzer.trace.memory_snapshot import ACTIONS, MemorySnapshot


def program() -> MemoryRecorder:
    memory = MemoryRecorder()
    first = memory.alloc(6 * MIB, FORWARD)
    memory.alloc(100)
    with memory.private_pool(3), memory.part("graph"):
        memory.alloc(MIB + 1)
    memory.free(first)
    return memory


def same(one: MemorySnapshot, other: MemorySnapshot) -> None:
    assert one.stacks == other.stacks
    for a, b in zip(one.devices, other.devices, strict=True):
        for part in ("segments", "blocks", "history"):
            for name, column in asdict(getattr(a, part)).items():
                assert np.array_equal(column, getattr(getattr(b, part), name)), name


def test_columns() -> None:
    snapshot = program().read()
    (device,) = snapshot.devices
    history = device.history
    said = [ACTIONS[code] for code in history.action]
    assert said == [
        "segment_alloc", "alloc", "segment_alloc", "alloc", "segment_alloc", "alloc", "free_requested", "free_completed"
    ]  # fmt: skip
    assert history.size.tolist() == [20 * MIB, 6 * MIB, 2 * MIB, 100, 20 * MIB, MIB + 1, 6 * MIB, 6 * MIB]
    assert np.diff(history.time_us).min() > 0
    assert snapshot.stacks[history.frames[1]] == FORWARD
    assert snapshot.stacks[history.frames[3]] == TRAIN
    assert device.segments.pool.tolist() == [-1, -1, 0]
    assert device.segments.is_large.tolist() == [True, False, True]
    assert device.blocks.requested[device.blocks.state == 1].tolist() == [100, MIB + 1]
    assert device.blocks.size[device.blocks.state == 1].tolist() == [512, MIB + 512]
    assert [mark.stage for mark in snapshot.annotations] == ["START", "END"]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_every_protocol_is_the_same(protocol: int) -> None:
    content = program().content()
    same(read(pickle.dumps(content, protocol=protocol)), program().read())


def test_json_is_the_same() -> None:
    same(read(json.dumps(program().content()).encode()), program().read())


def test_entries_that_share_their_frames() -> None:
    content = program().content()
    history = content["device_traces"][0]
    content["device_traces"][0] = [dict(entry, time_us=entry["time_us"] + k) for k in range(3000) for entry in history]
    snapshot = read(pickle.dumps(content))
    assert len(snapshot.devices[0].history) == 3000 * len(history)
    assert len(snapshot.stacks) == 2


def test_the_oldest_form() -> None:
    block = {"size": 1024, "state": "active_allocated", "history": [{"addr": 7, "real_size": 900, "frames": []}]}
    segment = {"address": 4096, "total_size": 2 * MIB, "segment_type": "small", "blocks": [block, block]}
    for content in ([segment], {"segments": [segment]}):
        (device,) = read(pickle.dumps(content)).devices
        assert device.blocks.requested.tolist() == [900, 900]
        assert device.blocks.address.tolist() == [4096, 4096 + 1024]


def test_pinned_host_memory() -> None:
    content = program().content() | {"host_segments": [{"total_size": 8 * MIB, "allocated_size": 3 * MIB}]}
    snapshot = read(pickle.dumps(content))
    assert (snapshot.host_reserved, snapshot.host_active) == (8 * MIB, 3 * MIB)
    assert program().read().host_reserved is None


def test_several_devices() -> None:
    one, two = MemoryRecorder().alloc, MemoryRecorder(device=2)
    assert one(MIB)
    two.alloc(3 * MIB)
    (device,) = two.read().devices
    assert device.device == 2
    assert len(device.history) == 2


def test_a_failed_allocation_has_what_was_free() -> None:
    content = program().content()
    content["device_traces"][0].append({"action": "oom", "device_free": 77, "size": 5, "stream": 0, "frames": []})
    history = read(pickle.dumps(content)).devices[0].history
    assert history.device_free is not None
    assert (history.device_free[-1], history.size[-1], history.time_us[-1]) == (77, 5, 0)


def test_damaged_entries_are_counted() -> None:
    content = program().content()
    content["device_traces"][0] += [{"action": "alloc", "addr": "x", "size": 5}, {"action": "alloc", "size": "y"}]
    content["segments"].append(5)
    snapshot = read(pickle.dumps(content))
    assert [(loss.id, loss.count) for loss in snapshot.losses] == [("read-memory-damaged", 3)]


_KEYS = b"\x80\x04}\x94(\x8c\x08segments\x94"
HOSTILE = {
    "os.system": pickle.dumps({"segments": Runs(os.system, "touch hacked")}, protocol=4),
    "eval": pickle.dumps({"segments": Runs(eval, "open('hacked', 'w')")}, protocol=2),
    "in a frame": pickle.dumps({"segments": [{"frames": [{"filename": Runs(os.system, "touch hacked"), "line": 1}]}]}),
    "memo bomb": _KEYS + b"r\xff\xff\xff\xff" * 5 + b".",
    "long text": _KEYS + b"X\xff\xff\xff\xffabc.",
    "deep lists": _KEYS + b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
    "deep marks": _KEYS + b"(" * 1_000_000,
    "many nothings": _KEYS + b"N" * 3_000_000 + b".",
    "many flat dicts": _KEYS + b"]\x94(" + b"}\x94(h\x00h\x01h\x01h\x01u" * 2_000_000 + b"e.",
    "endless frames": _KEYS + (b"\x95" + bytes(8)) * 100_000,
    "cut": _KEYS,
    "no segments": pickle.dumps({"allocator_settings": {}}),
    "cut JSON": b'{"segments": [{"total_size": 1',
    "deep JSON": b'{"device_traces": ' + b"[" * 100_000,
    "rather deep JSON": b'{"device_traces": ' + b"[" * 600 + b"]" * 600 + b"}",
    "many values of JSON": b'{"device_traces": [' + b"[]," * 3_000_000 + b"[]]}",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert memory_snapshot.begins(HOSTILE[case])
    tracemalloc.start()
    with pytest.raises(UnusableInputError) as error:
        read(HOSTILE[case])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert not (tmp_path / "hacked").exists()
    assert peak < (500 << 20)


def impossible(place: str, key: str, value: object) -> dict[str, Any]:
    """A snapshot with a value in the last segment, its last block, or the last allocation of the history."""
    content = json.loads(json.dumps(program().content()))
    segment = content["segments"][-1]
    allocation = [entry for entry in content["device_traces"][0] if entry["action"] == "alloc"][-1]
    {"segment": segment, "block": segment["blocks"][-1], "entry": allocation}[place][key] = value
    return content


IMPOSSIBLE = [
    ("segment", "total_size", 2**62, "sizes"),
    ("segment", "total_size", -1, "sizes"),
    ("segment", "total_size", 1e30, "sizes"),
    ("segment", "address", 2**64, "addresses"),
    ("segment", "address", -5, "addresses"),
    ("segment", "address", 2**64 - 4096, "addresses"),
    ("block", "size", 2**62, "sizes"),
    ("block", "size", -512, "sizes"),
    ("block", "requested_size", 2**61, "sizes"),
    ("block", "address", 2**70, "addresses"),
    ("entry", "size", 2**62, "sizes"),
    ("entry", "size", 2**70, "sizes"),
    ("entry", "size", -1, "sizes"),
    ("entry", "addr", 2**64, "addresses"),
    ("entry", "addr", -1, "addresses"),
]


@pytest.mark.parametrize("dump", [pickle.dumps, lambda content: json.dumps(content).encode()], ids=["pickle", "JSON"])
@pytest.mark.parametrize(("place", "key", "value", "said"), IMPOSSIBLE)
def test_what_no_device_has_is_one_line(
    place: str, key: str, value: object, said: str, dump: Callable[[object], bytes]
) -> None:
    with pytest.raises(UnusableInputError, match=rf"that can be read: it has {said}") as error:
        read(dump(impossible(place, key, value)))
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize("by", [1, 512, 4096])
def test_blocks_that_overlap_are_one_line(by: int) -> None:
    memory = MemoryRecorder()
    memory.alloc(6 * MIB)
    memory.alloc(4 * MIB)
    content = memory.content()
    first, second = content["segments"][0]["blocks"][:2]
    second["address"] = first["address"] + first["size"] - by
    with pytest.raises(UnusableInputError, match="it has blocks that overlap"):
        read(pickle.dumps(content))


def test_segments_that_overlap_are_one_line() -> None:
    content = program().content()
    content["segments"][1]["address"] = content["segments"][0]["address"]
    content["segments"][1]["blocks"] = []
    with pytest.raises(UnusableInputError, match="it has blocks that overlap"):
        read(pickle.dumps(content))


def test_sizes_whose_sum_leaves_64_bits_are_one_line() -> None:
    content = program().content()
    history = content["device_traces"][0]
    content["device_traces"][0] = [dict(history[1], size=1 << 49) for _ in range(1 << 14)]
    with pytest.raises(UnusableInputError, match="it has sizes"):
        read(pickle.dumps(content))


def test_a_program_may_ask_for_any_size() -> None:
    """What fails was not allocated, however large it is."""
    content = program().content()
    content["device_traces"][0].append({"action": "oom", "device_free": 77, "size": 2**62, "stream": 0, "frames": []})
    history = read(pickle.dumps(content)).devices[0].history
    assert history.size[-1] == 2**62


def test_devices_have_addresses_of_their_own() -> None:
    content = program().content()
    content["segments"] += [segment | {"device": 1} for segment in content["segments"]]
    assert len(read(pickle.dumps(content)).devices) == 2


def test_times_that_cannot_be_are_unknown() -> None:
    content = program().content()
    content["device_traces"][0][0]["time_us"] = 2**62
    content["device_traces"][0][1]["time_us"] = -(2**62)
    content["external_annotations"][0]["time_us"] = 2**61
    snapshot = read(pickle.dumps(content))
    assert snapshot.devices[0].history.time_us[:2].tolist() == [0, 0]
    assert snapshot.annotations[0].time_us == 0


def test_damage_never_escapes() -> None:
    data = pickle.dumps(program().content())
    outcomes = set()
    for place in range(0, len(data), 3):
        for value in (0, 40, 255):
            try:
                read(data[:place] + bytes((value,)) + data[place + 1 :])
                outcomes.add("read")
            except UnusableInputError as error:
                outcomes.add(str(error).partition("it ")[2])
    assert {"read", "is damaged or cut"} <= outcomes


def test_dicts_read_at_once_are_those_that_are_read_one_by_one() -> None:
    """The quick way for dicts of plain values changes nothing, whatever the values are."""
    shared = ["text", 5, None]
    values: list[Any] = [0, 255, 256, 70_000, -1, 2**31, 2**40, -(2**50), 2**62, None, True, False, "x", shared, shared]
    rows = [{"a": one, "b": other, "frames": shared} for one in values for other in values]
    for _ in range(2):
        rows += [{"a": 1.5, "b": [1, 2]}, {"a": [], "b": ["x"] * 2000}, {"a": "new", "b": "newer"}]
    seen: list[Any] = []
    for protocol in (3, 4, 5):
        found = plain_data.loads(pickle.dumps(rows, protocol=protocol), lambda row: seen.append(dict(row)))
        assert found == rows
    assert seen == rows * 3


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (pickle.dumps({"segments": []}), True),
        (pickle.dumps({"device_traces": []}, protocol=2), True),
        (b'\xef\xbb\xbf {"segments": [], "device_traces": []}', True),
        (b'{"traceEvents": [], "segments": [], "device_traces": []}', False),
        (pickle.dumps({"state_dict": 1, "segments": 2}), False),
        (pickle.dumps([1, 2]), False),
        (struct.pack("<Q", 5), False),
    ],
)
def test_what_begins_like_one(data: bytes, is_one: bool) -> None:
    assert memory_snapshot.begins(data) == is_one


def pinned(*, is_nested: bool) -> dict[str, Any]:
    """A snapshot with a history of pinned host memory, as of torch 2.14."""
    host = MemoryRecorder()
    host.free(host.alloc(6 * MIB, FORWARD))
    host.alloc(4 * MIB)
    recorded = host.content()
    history = recorded["device_traces"] if is_nested else recorded["device_traces"][0]
    return program().content() | {"host_segments": recorded["segments"], "host_traces": history}


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_history_of_pinned_host_memory(is_nested: bool) -> None:
    snapshot = read(pickle.dumps(pinned(is_nested=is_nested)))
    assert snapshot.host is not None
    assert [ACTIONS[code] for code in snapshot.host.history.action] == [
        "segment_alloc", "alloc", "free_requested", "free_completed", "alloc"
    ]  # fmt: skip
    assert snapshot.host_reserved == 20 * MIB
    found = snapshots.analyze(snapshot)
    assert found.host_peak_bytes == 6 * MIB
    assert [(row.line, row.held_bytes) for row in found.host_lines] == [("/home/me/model.py(30): forward", 6 * MIB)]


def test_pinned_host_memory_alone() -> None:
    content = pinned(is_nested=True) | {"segments": [], "device_traces": []}
    found = snapshots.analyze(read(pickle.dumps(content)))
    assert found.host_peak_bytes == 6 * MIB
    assert [device.reserved_bytes for device in found.devices] == [0]
