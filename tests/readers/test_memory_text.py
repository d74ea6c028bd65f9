"""Errors of failed allocations and summaries of memory in texts, in the wordings of several releases of torch."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from tests.readers.forms.test_forms import document_of, headlines, report_of
from tests.readers.test_pasted_texts import told

GIB, MIB = 1 << 30, 1 << 20
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/user/project/main.py", line 12, in <module>
    main()
  File "/home/user/project/train/steps.py", line 104, in step
    loss.backward()
  File "/opt/conda/lib/python3.10/site-packages/torch/_tensor.py", line 492, in backward
    torch.autograd.backward(
"""
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.00 GiB. GPU 0 has a total capacity of 24.00 GiB of "
    "which 1.00 GiB is free. Process 4066 has 22.50 GiB memory in use. Of the allocated memory 11.00 GiB is allocated by "
    "PyTorch, and 11.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
    "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 128.00 MiB (GPU 1; 11.00 GiB total capacity; 10.50 GiB already "
    "allocated; 24.00 MiB free; 10.60 GiB reserved in total by PyTorch)\n"
)
OLDEST = OLD.replace("10.60 GiB reserved in total by PyTorch", "64.00 MiB cached")
MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 1.00 GB, max allowed: 18.13 GB)."
    " Tried to allocate 1.00 GB on private pool.\n"
)
SUMMARY = """\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 1            |        cudaMalloc retries: 2         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |    2048 MB |    4096 MB |   89299 MB |   88237 MB |
|       from large pool |    2040 MB |    4080 MB |   89263 MB |   88215 MB |
|---------------------------------------------------------------------------|
| Active memory         |    2048 MB |    4096 MB |   89299 MB |   88237 MB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |   10240 MB |   12288 MB |   16924 MB |    4504 MB |
|---------------------------------------------------------------------------|
| Non-releasable memory |    6144 MB |    8192 MB |   60000 MB |   54000 MB |
|===========================================================================|
"""


def findings(text: str) -> dict[str, str]:
    return {finding.rule: finding.summary.text for finding in report_of(text).findings}


def test_an_error_says_what_was_asked_by_which_line_and_what_was_free() -> None:
    (failure,) = document_of(TRACEBACK + NEW).memory_failures
    assert failure.code == "/home/user/project/train/steps.py(104): step"
    assert (failure.asked_bytes, failure.total_bytes, failure.free_bytes) == (10 * GIB, 24 * GIB, GIB)
    assert (failure.allocated_bytes, failure.inactive_bytes, failure.reserved_bytes) == (11 * GIB, 11 * GIB, 22 * GIB)
    assert headlines(TRACEBACK + NEW) == [
        "Out of memory: train/steps.py:104 asked for 10 GiB; 1.0 GiB were free, 11 GiB reserved but unused."
    ]


def test_fragmentation_alone_explains_what_would_have_fitted_in_one_piece() -> None:
    found = findings(TRACEBACK + NEW)
    assert list(found) == ["memory-fragmented"]
    assert "Fragmentation alone explains it" in found["memory-fragmented"]
    said = told(report_of(TRACEBACK + NEW))
    assert "expandable_segments:True" in said
    assert "_record_memory_history()" in said


def test_else_the_program_or_others_hold_too_much() -> None:
    full = NEW.replace("11.00 GiB is reserved", "2.00 GiB is reserved")
    assert "would not have been enough" in findings(full)["memory-exhausted"]
    others = NEW.replace("11.00 GiB is allocated", "1.00 GiB is allocated").replace(
        "11.00 GiB is res", "0.50 GiB is res"
    )
    assert "other processes or libraries 22 GiB" in findings(others)["memory-exhausted"]
    free = NEW.replace("1.00 GiB is free", "12.00 GiB is free")
    assert "although 12 GiB were free" in findings(free)["memory-exhausted"]


@pytest.mark.parametrize(
    ("text", "asked", "free", "inactive"),
    [
        (OLD, 128 * MIB, 24 * MIB, round(10.6 * GIB) - round(10.5 * GIB)),
        (OLDEST, 128 * MIB, 24 * MIB, 0),
        (MPS, GIB, round(18.13 * GIB) - 18 * GIB, None),
        (NEW.replace("capacity", "capacty").replace("CUDA out", "HIP out"), 10 * GIB, GIB, 11 * GIB),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n", 20 * MIB, None, None),
        ("CUDA out of memory. Tried to allocate 512 bytes. GPU 0 has a total capacity", 512, None, None),
    ],
    ids=["old", "oldest", "mps", "misspelt", "alone", "cut"],
)
def test_wordings_of_releases(text: str, asked: int, free: int | None, inactive: int | None) -> None:
    (failure,) = document_of(text).memory_failures
    assert (failure.asked_bytes, failure.free_bytes, failure.inactive_bytes) == (asked, free, inactive)


def test_an_error_may_be_broken_into_lines_and_quoted() -> None:
    words = NEW.split()
    wrapped = "\n".join("> " + " ".join(words[at : at + 12]) for at in range(0, len(words), 12)) + "\n"
    (failure,) = document_of(wrapped).memory_failures
    assert (failure.asked_bytes, failure.free_bytes, failure.inactive_bytes) == (10 * GIB, GIB, 11 * GIB)


def test_ranks_have_their_own_tracebacks() -> None:
    mixed = []
    for line in (TRACEBACK + NEW).splitlines():
        mixed += [f"[rank0]: {line}", f"[rank1]: {line}".replace("104", "205").replace("GPU 0", "GPU 1")]
    failures = document_of("\n".join(mixed) + "\n").memory_failures
    assert [(one.device, (one.code or "")[-10:]) for one in failures] == [(0, "104): step"), (1, "205): step")]


def test_tracebacks_of_rich() -> None:
    rich = (
        "╭──────── Traceback (most recent call last) ────────╮\n│ /home/user/project/train.py:31 in main            │\n"
        "│ /usr/lib/python3.10/site-packages/torch/nn/modules/module.py:1501 in _call_impl │\n╰───╯\n"
    )
    (failure,) = document_of(rich + NEW).memory_failures
    assert failure.code == "/home/user/project/train.py(31): main"


def test_what_is_said_twice_counts_once() -> None:
    again = (
        TRACEBACK + NEW + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACEBACK + NEW
    )
    assert len(document_of(again).memory_failures) == 1


def test_a_summary_is_read() -> None:
    (summary,) = document_of(SUMMARY).memory_summaries
    assert (summary.failures, summary.retries, summary.device) == (1, 2, 0)
    assert (summary.allocated_bytes, summary.peak_bytes) == (2 * GIB, 4 * GIB)
    assert (summary.reserved_bytes, summary.stuck_bytes) == (10 * GIB, 6 * GIB)
    assert headlines(SUMMARY) == ["GPU0 ran out of memory once: tensors hold 2.0 GiB of 10 GiB reserved."]
    assert list(findings(SUMMARY)) == ["memory-fragmented"]


def test_a_summary_without_failures_has_no_findings() -> None:
    quiet = SUMMARY.replace("OOMs: 1", "OOMs: 0").replace("retries: 2", "retries: 0").replace("MB", "MiB")
    assert headlines(quiet) == ["GPU0: tensors hold 2.0 GiB of 10 GiB reserved, and held 4.0 GiB at the peak."]
    assert findings(quiet) == {}


def test_a_summary_of_a_full_device() -> None:
    full = SUMMARY.replace("|    6144 MB |", "|      64 MB |").replace("retries: 2", "retries: 0")
    assert findings(full) == {
        "memory-exhausted": "One allocation failed on GPU0, where tensors held 4.0 GiB at the peak."
    }


def test_memory_of_a_text_does_not_hide_its_tables() -> None:
    from tests.readers.forms import examples  # noqa: PLC0415

    said = headlines(examples.CPROFILE + "\n" + NEW)
    assert [one.partition(",")[0] for one in said] == [
        "Out of memory: an unknown line asked for 10 GiB; 1.0 GiB were free",
        "Of 10 s",
    ]
