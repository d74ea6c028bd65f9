"""A saved trace contains nothing about the machine."""

from __future__ import annotations

import pytest

from traceanalyzer.capture.agent.tracefile import Cleaner

HOME, PROJECT = "/home/jane.doe", "/home/jane.doe/my work"
CLEANER = Cleaner(PROJECT, ["/opt/env/lib/python3.11", "/opt/env/lib/python3.11/site-packages", "/"], HOME)


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ('  "host_name": "gpu-17.example",', "  "),
        ('  "PT_PROFILER_JOB_NAME": "jane\\"s job", "a": 1', '   "a": 1'),
        ('  ],"traceName": "/home/jane.doe/t.json" }', "  ] }"),
        ('  "traceName": "/home/jane.doe/t.json"', '  "traceName": ""'),
        ('  "traceName": "plain.json"', '  "traceName": ""'),
        ('"name": "/opt/env/lib/python3.11/site-packages/torch/nn/a.py(3): f"', '"name": "torch/nn/a.py(3): f"'),
        ('"name": "/opt/env/lib/python3.11/threading.py(3): f"', '"name": "threading.py(3): f"'),
        ('"name": "/home/jane.doe/my work/src/train.py(3): main"', '"name": "src/train.py(3): main"'),
        ('"name": "/home/jane.doe/other/train.py(3): main"', '"name": "train.py(3): main"'),
        ('"name": "/mnt/jane doe/x y/train.py(3): main"', '"name": "train.py(3): main"'),
        ('"name": "C:/Users/jane/train.py(3): main"', '"name": "train.py(3): main"'),
        ('"Call stack": "/a/b/c.py(1): f;/home/jane.doe/d.py(2): g"', '"Call stack": "c.py(1): f;d.py(2): g"'),
        ('"kernel_file": "/tmp/torchinductor_jane/x/cabc.py"', '"kernel_file": "cabc.py"'),
        ('"where": "/home/jane.doe"', '"where": "~"'),
        (
            '"name": "<built-in method mm of type object at 0x7f>"',
            '"name": "<built-in method mm of type object at 0x7f>"',
        ),
        ('"name": "nccl:all_reduce a/b"', '"name": "nccl:all_reduce a/b"'),
        ('"name": "see https://example.org/a/b"', '"name": "see https://example.org/a/b"'),
        ('"name": "torch/nn/a.py(3): f"', '"name": "torch/nn/a.py(3): f"'),
    ],
)
def test_a_line_is_cleaned(line: str, cleaned: str) -> None:
    assert CLEANER.clean(line.encode()).decode() == cleaned


def test_cleaning_twice_changes_nothing_more() -> None:
    line = b'"name": "/home/jane.doe/my work/src/train.py(3): main", "file": "/tmp/a/b.py"'
    assert CLEANER.clean(CLEANER.clean(line)) == CLEANER.clean(line)


def test_a_project_above_the_home_folder_would_name_the_user() -> None:
    assert Cleaner("/home", [], HOME).clean(b'"/home/jane.doe/a/b.py(1): f"') == b'"b.py(1): f"'
