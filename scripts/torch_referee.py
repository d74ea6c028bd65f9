"""Torch's own rules for traces (`torch.profiler._trace_validator`, from 2.13 on), a referee of our warnings.

`check_laws.py` asks it where torch is installed: beside this Python, or in the environment of `make test-torch`. What a
rule finds must be among the warnings of the report, or `UNMATCHED` says why it is not.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_VALIDATOR = "profiler/_trace_validator.py"
_LARGE = 20 << 20
"""Bytes of a file that it is not asked about: it holds all events as objects of Python."""

MATCHED = {"_check_gpu_kernel_causality": "q-clock-anomaly"}
"""By rule the warning that must be in the report."""

UNMATCHED = {
    "_check_stream_wait_corr_id_populated": "no analysis uses the id of the record that a stream waits for",
    "_check_stream_sync_overlap": "a stream may run a kernel while the wait for it begins: that is what is waited for",
    "_check_stream_wait_corr_id_in_past": "no analysis uses the id of the record that a stream waits for",
    "_check_nccl_metadata": "collectives without a name are named after their kernels, and unknown sizes stay unknown",
    "_check_backward_seq_id_uniqueness": "one operator may have several backward functions; arrows decide first",
}
"""By rule why the report has no warning for it."""

_CORRELATIONS = re.compile(r"correlation=(\w+)\)")

Violations = Callable[[Path], Iterable[tuple[str, str]]]


def validator() -> Violations | None:
    """Torch's rules, as a function from a trace to names of rules and messages; None where torch is not installed."""
    found = importlib.util.find_spec("torch")
    places = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    places += sorted((ROOT / ".venv-torch").glob("lib/python3*/site-packages/torch"))
    file = next((place / _VALIDATOR for place in places if (place / _VALIDATOR).is_file()), None)
    if file is None:
        return None
    spec = importlib.util.spec_from_file_location("torch_trace_validator", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)

    def violations(trace: Path) -> Iterator[tuple[str, str]]:
        yield from ((each.rule_name, each.message) for each in module.validate_trace(str(trace))[1])

    return violations


def disagreements(violations: Violations, traces: Iterable[Path], report: Callable[[Path], Any]) -> Iterator[str]:
    """A line for each rule that finds something in a trace of which the report says nothing.

    Args:
        violations: Torch's rules.
        traces: The traces; large ones and files that are no JSON are left out.
        report: The report on a trace, as JSON.
    """
    for trace in traces:
        if trace.stat().st_size > _LARGE:
            continue
        try:
            broken = {rule for rule, message in violations(trace) if _counts(rule, message)}
        except (ValueError, TypeError, AttributeError, EOFError, OSError):  # it takes sound traces only
            continue
        unknown = sorted(broken - MATCHED.keys() - UNMATCHED.keys())
        yield from (f"{trace.name}: {rule}: a rule that scripts/torch_referee.py does not know" for rule in unknown)
        wanted = {MATCHED[rule]: rule for rule in broken & MATCHED.keys()}
        said = {warning["id"] for warning in report(trace)["warnings"]} if wanted else set()
        yield from (f"{trace.name}: {wanted[one]}: no warning {one}" for one in sorted(wanted.keys() - said))


def _counts(rule: str, message: str) -> bool:
    """Whether a violation is one: torch joins kernels and launches by the id of an operator, which may have many."""
    ids = _CORRELATIONS.findall(message)
    return rule != "_check_gpu_kernel_causality" or len(set(ids)) == 1


def report_of(trace: Path) -> Any:
    """The report of this checkout on a trace."""
    command = [sys.executable, "-m", "traceanalyzer", "report", str(trace), "-o", "-", "--format", "json", "-q"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)
