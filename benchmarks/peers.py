"""Other analyzers of the same traces, each in a separate environment.

Each program reads a trace and computes everything that its tool shows for a single trace. The full report, with which
it is compared, does more.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TORCH_TB_PROFILER = """
import sys, tempfile
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
with tempfile.TemporaryDirectory() as cache:
    data = RunProfileData.parse("worker", None, sys.argv[1], cache)
    RunGenerator("worker", None, data).generate_run_profile()
"""

_HTA = """
import os, sys
from hta.trace_analysis import TraceAnalysis
folder, name = os.path.split(sys.argv[1])
analysis = TraceAnalysis(trace_files={0: name}, trace_dir=folder)
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
"""

_TRACELENS = """
import runpy, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    sys.argv = ["report", "--profile_json_path", sys.argv[1], "--output_csvs_dir", folder]
    runpy.run_module("TraceLens.Reporting.generate_perf_report_pytorch", run_name="__main__")
"""

PROGRAMS = {
    "torch-tb-profiler": ("torch_tb_profiler", _TORCH_TB_PROFILER),
    "HolisticTraceAnalysis": ("hta", _HTA),
    "TraceLens": ("TraceLens", _TRACELENS),
}
"""By name of the distribution: a module that identifies it, because an index may have another project of the same name,
and the program that runs it on the path of a trace."""

_VERSION = """
import importlib.metadata, importlib.util, sys
print(importlib.metadata.version(sys.argv[1]))
sys.exit(importlib.util.find_spec(sys.argv[2]) is None)
"""


@dataclass(frozen=True)
class Peer:
    """A tool that is installed in an environment."""

    name: str
    version: str
    python: str

    def command(self, trace: Path) -> list[str]:
        """The command that analyzes a trace."""
        return [self.python, "-c", PROGRAMS[self.name][1], str(trace)]


def find(named: Iterable[str]) -> list[Peer]:
    """The tools that the user names as NAME=PYTHON.

    Raises:
        ValueError: The tool is unknown, or not installed in that environment.
    """
    return [_peer(*text.partition("=")[::2]) for text in named]


def _peer(name: str, python: str) -> Peer:
    if name not in PROGRAMS or not python:
        raise ValueError(f"--peer takes NAME=PYTHON, NAME one of {', '.join(PROGRAMS)}; not {name}={python}")
    try:
        asked = subprocess.run(
            [python, "-c", _VERSION, name, PROGRAMS[name][0]], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ValueError(f"{python}: cannot be run: {error.strerror}") from None
    if asked.returncode:
        raise ValueError(f"{python}: has no {name}")
    return Peer(name, asked.stdout.strip(), python)
