"""Every file that is not read is named by what it is, with what to give instead, in one sentence."""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, assert_one_line, call
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import other_files
from traceanalyzer.inputs.opening import load


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return file.getvalue()


def _database(tmp: Path, table: str) -> bytes:
    path = tmp / f"{table}.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    connection.commit()
    connection.close()
    data = path.read_bytes()
    path.unlink()
    return data


def _samples(tmp: Path) -> dict[str, tuple[bytes, str]]:
    """Small files of other formats by name, each with a part of what is said of it."""
    event = struct.pack("<Q", 24) + bytes(4) + b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2" + bytes(4)
    weights = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    execution = b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}'
    return {
        "a.ncu-rep": (b"NVR\0" + bytes(60), "Nsight Compute"),
        "b.nsys-rep": (b"\x00\x10\x03" * 40, "the text that `nsys stats` prints"),
        "c.qdrep": (b"\x00\x10\x03" * 40, "Nsight Systems"),
        "d.sqlite": (_database(tmp, "CUPTI_ACTIVITY_KIND_KERNEL"), "export of Nsight Systems"),
        "e.db": (_database(tmp, "rocpd_api"), "rocprof (rocpd)"),
        "f.db": (_database(tmp, "people"), "database of SQLite"),
        "g.xplane.pb": (b"\x0a\x20\x08\x01\x12\x0d/device:GPU:0" + bytes(30), "XLA"),
        "h.pftrace": (b"\x0a\x10\x50\x01" + bytes(40), "Perfetto"),
        "i.bin": (b"memray\0" + bytes(40), "memray"),
        "j.data": (b"PERFILE2" + bytes(90), "perf"),
        "k.parquet": (b"PAR1" + bytes(20) + b"PAR1", "Parquet"),
        "l.arrow": (b"ARROW1" + bytes(20), "Arrow"),
        "m.h5": (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        "n.npy": (b"\x93NUMPY\x01\x00" + bytes(80), "NumPy"),
        "o.gguf": (b"GGUF\x03\0\0\0" + bytes(40), "GGUF"),
        "p.png": (b"\x89PNG\r\n\x1a\n" + bytes(40), "PNG"),
        "q.jpg": (b"\xff\xd8\xff\xe0" + bytes(40), "JPEG"),
        "r.gif": (b"GIF89a" + bytes(40), "GIF"),
        "s.webp": (b"RIFF\x10\0\0\0WEBPVP8 " + bytes(40), "WebP"),
        "t.svg": (b'<?xml version="1.0"?><svg><title>py-spy record</title></svg>', "flame graph"),
        "u.pdf": (b"%PDF-1.7\n" + bytes(40), "PDF"),
        "v.json.zst": (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd"),
        "w.json.xz": (b"\xfd7zXZ\0" + bytes(40), "xz"),
        "x.pt": (_zip("archive/data.pkl", "archive/data/0"), "checkpoint of torch"),
        "y.xlsx": (_zip("[Content_Types].xml", "xl/workbook.xml"), "spreadsheet"),
        "z.zip": (_zip("trace.json"), "archive (zip)"),
        "aa.npz": (_zip("a.npy"), "arrays (npz)"),
        "ab.tar": (_tar(), "archive (tar)"),
        "ac.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "checkpoint of torch"),
        "ad.safetensors": (struct.pack("<Q", len(weights)) + weights + bytes(4), "safetensors"),
        "ag.pkl": (pickle.dumps({"a": 1}), "pickle of Python"),
        "ah.tfevents": (event, "TensorBoard"),
        "ai.speedscope.json": (b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}', "speedscope"),
        "aj.json": (b'{"alloc_samples": 1, "files": {}}', "Scalene"),
        "ak.json": (execution, "execution trace"),
        "al.folded": (b"main (a.py:1);train (a.py:9);step (b.py:4) 812\nmain (a.py:1);load (a.py:5) 3\n", "stacks"),
        "am.csv": (b"Name,cpu_time_total,cuda_time_total\naten::mm,1,2\n", "key_averages() as CSV"),
        "an.csv": (b'"Kind","Kernel_Name","Start_Timestamp","End_Timestamp"\n', "rocprof"),
        "ao.csv": (b"Step Id,Device_id,Name,Type,Op Name,OP Type\n", "Ascend"),
        "ap.csv": (b'"ID","Process ID","Process Name","Host Name"\n', "Nsight Compute"),
        "aq.csv": (b"Wall time,Step,Value\n1,2,3\n", "TensorBoard"),
        "ar.wandb": (b":W&B\xbe\xe1\0" + bytes(40), "Weights & Biases"),
        "at.csv": (b'"Step","wave-12 - train/loss","wave-12 - train/loss__MIN"\n', "Weights & Biases"),
        "au.csv": (b"Start (ns),Duration (ns),CorrId,Name\n", "of single events"),
        "as.so": (b"\x7fELF\x02\x01\x01" + bytes(40), "ELF"),
    }


def test_each_is_named_with_what_to_give_instead(tmp_path: Path) -> None:
    samples = _samples(tmp_path)
    assert len(samples) >= 30
    for name, (data, part) in samples.items():
        file = tmp_path / name
        file.write_bytes(data)
        run = call("report", file)
        assert run.code == 2, name
        assert_one_line(run)
        assert part in run.err, (name, run.err)
        assert any(way in run.err for way in ("; give ", "; unpack ")), (name, run.err)


def test_a_folder_of_them_names_what_it_has(tmp_path: Path) -> None:
    samples = _samples(tmp_path)
    for name, (data, _) in samples.items():
        (tmp_path / name).write_bytes(data)
    for command in ("report", "ranks"):
        run = call(command, tmp_path)
        assert run.code == 2
        assert_one_line(run)
        assert "a.ncu-rep is a report of Nsight Compute;" in run.err or "ai.speedscope.json: is a profile" in run.err
    few = tmp_path / "few"
    few.mkdir()
    (few / "model.pth").write_bytes(samples["ac.pth"][0])
    assert "model.pth is a checkpoint of torch" in call("report", few).err


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"traceEvents": [{"ph": "X", "name": "speedscope.app/file-format-schema"}]}', "trace.json"),
        (b"BMW is a car\n", "a.txt"),
        (b"a;b;c\n", "a.txt"),
        (b"<?xml version='1.0'?><html><svg/></html>", "page.html"),
        (b'{"segments": 3}', "a.json"),
        (b'"Name","Self CPU %"\n', "a.csv"),
        (b"", "empty"),
        (b"\x80", "one"),
    ],
)
def test_what_may_be_read_is_not_named(data: bytes, name: str) -> None:
    assert other_files.described(data, name) is None


def test_no_fixture_is_taken_for_another_file() -> None:
    files = [path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix in (".json", ".txt", ".md", ".log")]
    assert files
    for path in files:
        assert other_files.described(path.read_bytes()[: other_files.HEAD], path.name) is None, path


@pytest.mark.parametrize(
    "line",
    [
        "[2024-11-07 02:58:01] INFO: step 100 loss 2.1",
        "Epoch 1: 100%|#####| 10/10 [00:10<00:00, 1.0it/s, v_num=0]",
        "epoch: 3, lr: 0.1, loss: 0.25",
        "train loss=0.31 at iter 400",
    ],
)
def test_a_log_of_a_training_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_text(f"{line}\n" * 3)
    with pytest.raises(UnusableInputError, match="contains a log of a training, in which nothing says what takes"):
        load(file)


def test_a_text_about_something_else_is_no_log_of_a_training(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("The first step is to look at the table.\nA loss of time is no loss of data.\n")
    with pytest.raises(UnusableInputError, match="contains neither a profiler trace"):
        load(file)
