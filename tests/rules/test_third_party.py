"""Rules of other packages: the example works, and a broken one stops nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from tests.reading import assert_reads_back
from tests.rules.judging import report
from tests.rules.loader.test_dataloader_bound import fires, fires_in_a_table, quiet
from traceanalyzer import processes
from traceanalyzer.errors import UsageError
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine import selection
from traceanalyzer.rules.engine.change import DeviceWork, StepChange
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.events import LOADER

ROOT = Path(__file__).parents[2]
_TEXT = Text("broken-rule-text", "x")


def _breaks(facts: Facts, limits: object) -> Iterator[Draft]:
    raise ZeroDivisionError("by design")


def _broken(ident: str = "broken-rule") -> Rule:
    return Rule(ident, _TEXT, _TEXT, _TEXT, _TEXT, "info", "C", ("gpu",), "1.0", trace=_breaks)


BROKEN = _broken()
TAKEN = _broken("dataloader-bound")
NO_RULE = 3


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of the group, as if some package had them."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(selection, "entry_points", lambda group: [p for p in points if p.group == group])
    selection.known.cache_clear()
    yield points
    selection.known.cache_clear()


def point(value: str) -> EntryPoint:
    return EntryPoint("theirs", f"tests.rules.test_third_party:{value}", selection.GROUP)


def test_a_rule_that_raises_is_skipped_with_the_reason(installed: list[EntryPoint]) -> None:
    installed.append(point("BROKEN"))
    whole = report(quiet())
    assert {s.id: s.reason.text for s in whole.skipped}["broken-rule"].startswith(
        "the rule failed (ZeroDivisionError: by design)"
    )


class _Aborted(BaseException):
    """An error like the cancellation of a task, which is not an Exception."""


class _Silent(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even that")


def _raises_midway(facts: Facts) -> Iterator[Draft]:
    yield Draft((_EVIDENCE,))
    raise LookupError("after the first")


def _never_ends(facts: Facts) -> Iterator[Draft]:
    while True:
        yield Draft((_EVIDENCE,))


def _throws(error: BaseException) -> Callable[[Facts], Iterator[Draft]]:
    def detect(facts: Facts) -> Iterator[Draft]:
        raise error
        yield

    return detect


def _change(**values: object) -> DeviceWork:
    return DeviceWork(**{"direct": (0.0, 1e6), "basis": _TEXT(), **values})  # type: ignore[arg-type]


def _yields(**values: object) -> Callable[[Facts], list[Draft]]:
    return lambda facts: [Draft(**{"evidence": (_EVIDENCE,), **values})]  # type: ignore[arg-type]


_EVIDENCE = Evidence(_TEXT(), 1.0, 0.5, "share", ())
_NAN = float("nan")
_LONE = chr(0xD800)

BREAKING: dict[str, Callable[[Facts], object]] = {
    "a summary that names an absent field": _yields(summary=Text("broken-rule-field", "{gone:ns}")),
    "a parameter of another type": _yields(summary=Text("broken-rule-type", "{x:ns}"), params={"x": "long"}),
    "an unknown unit in a text": _yields(summary=Text("broken-rule-unit", "{x:miles}"), params={"x": 1}),
    "a parameter that no file can hold": _yields(params={"x": object()}),
    "an unknown severity": _yields(severity="warning"),
    "an unknown ceiling": _yields(ceiling="worst"),
    "an unknown confidence": _yields(confidence="Z"),
    "a severity that is no text": _yields(severity=3),
    "a summary that is no text": _yields(summary="seen"),
    "code that is no text": _yields(code=7),
    "evidence that is none": _yields(evidence=("x",)),
    "evidence that is not a number": _yields(evidence=(Evidence(_TEXT(), _NAN, 0.5, "share", ()),)),
    "evidence in an unknown unit": _yields(evidence=(Evidence(_TEXT(), 1.0, 0.5, "miles", ()),)),
    "evidence without bounds": _yields(evidence=(Evidence(_TEXT(), float("inf"), 0.5, "share", ()),)),
    "a change that is none": _yields(change="faster"),
    "a change of no known kind": _yields(change=StepChange((0.0, 1e6), _TEXT())),
    "a change that is not a number": _yields(change=_change(direct=(0.0, _NAN))),
    "a change below nothing": _yields(change=_change(direct=(-5.0, 1.0))),
    "a change without an end": _yields(change=_change(direct=(0.0, float("inf")))),
    "a change with one end": _yields(change=_change(direct=(1.0,))),
    "exposed time that is not a number": _yields(change=_change(exposed=(_NAN, _NAN))),
    "claims that are no times": _yields(change=_change(claims={LOADER: "all"})),
    "claims that are not a number": _yields(change=_change(claims={LOADER: _NAN})),
    "events that have only a name": _yields(change=_change(at=LOADER)),
    "events that are no set": _yields(change=_change(host=list)),
    "a basis that is no message": _yields(change=_change(basis="because")),
    "a giant text": _yields(code="x" * 5_000_000),
    "half a character": _yields(code=_LONE),
    "no drafts but texts": lambda facts: ["slow"],
    "nothing to iterate": lambda facts: None,
    "a call that does not fit": list,  # type: ignore[dict-item]
    "an error midway": _raises_midway,
    "no end": _never_ends,
    "a recursion": _throws(RecursionError("deep")),
    "an error that cannot be told": _throws(_Silent()),
    "an error of many lines": _throws(ValueError("one" + chr(10) * 3 + "two" * 5000)),
    "no Exception": _throws(_Aborted("by design")),
    "a reason that is no message": _throws(Missing(SimpleNamespace(text="x"))),  # type: ignore[arg-type]
}


def _detector(function: Callable[[Facts], object]) -> Callable[..., object]:
    return lambda facts, limits: function(facts)


@pytest.mark.parametrize("case", BREAKING)
def test_whatever_a_rule_does_the_others_are_reported(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(BROKEN, trace=_detector(BREAKING[case]))  # type: ignore[arg-type]
    monkeypatch.setattr(selection, "known", lambda: (*selection.builtin(), broken))
    whole = report(fires())
    reasons = {entry.id: entry.reason.text for entry in whole.skipped}
    assert reasons["broken-rule"].startswith("the rule failed (")
    assert len(reasons["broken-rule"]) < 400
    assert len(reasons["broken-rule"].splitlines()) == 1
    assert "broken-rule" not in {finding.rule for finding in whole.findings}
    assert "dataloader-bound" in {finding.rule for finding in whole.findings}
    assert_reads_back(msgspec.json.encode(whole), whole)


def _hang(_: Facts) -> None:
    while True:
        pass


def _crash(_: Facts) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


ENDING: dict[str, tuple[Callable[[Facts], object], str]] = {
    "an interrupt": (_throws(KeyboardInterrupt()), "the rule failed (KeyboardInterrupt)"),
    "sys.exit": (_throws(SystemExit(5)), "the rule failed (SystemExit: 5)"),
    "the end of the process": (lambda _: os._exit(5), "the rule failed (it ended its process with exit code 5)"),
    "a crash": (_crash, "the rule failed (its process was ended by SIGTERM)"),
    "no end": (_hang, "the rule took longer than 300 ms, the limit of rules of other packages (rule-seconds in the"),
    "no end of sleep": (lambda _: time.sleep(3600), "the rule took longer than"),
}


@pytest.mark.skipif(not processes.can_fork(), reason="nothing to compare: processes cannot be forked here")
@pytest.mark.parametrize("case", ENDING)
def test_no_rule_ends_or_stops_the_program(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, reason = ENDING[case]
    broken = replace(BROKEN, trace=_detector(function))  # type: ignore[arg-type]
    monkeypatch.setattr(selection, "known", lambda: (*selection.builtin(), broken))
    fork, forked = os.fork, list[int]()

    def noted() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", noted)
    whole = report(fires(), seconds=0.3)
    assert {entry.id: entry.reason.text for entry in whole.skipped}["broken-rule"].startswith(reason)
    assert "dataloader-bound" in {finding.rule for finding in whole.findings}
    assert len(forked) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], 0)  # it has been waited for


@pytest.mark.parametrize("case", ["an interrupt", "sys.exit", "no end of sleep"])
def test_where_processes_cannot_be_forked(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "can_fork", lambda: False)
    function, reason = ENDING[case]
    monkeypatch.setattr(selection, "known", lambda: (replace(BROKEN, trace=_detector(function)),))  # type: ignore[arg-type]
    whole = report(fires(), seconds=0.3)
    assert {entry.id: entry.reason.text for entry in whole.skipped}["broken-rule"].startswith(reason)


def test_the_time_is_up_once_for_all_runs_of_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "known", lambda: (replace(BROKEN, table=_detector(lambda _: time.sleep(3600))),))  # type: ignore[arg-type]
    waited: list[float] = []
    contained = processes.contained

    def counted(compute: Callable[[], object], seconds: float) -> object:
        waited.append(seconds)
        return contained(compute, seconds)

    monkeypatch.setattr(processes, "contained", counted)
    first = fires_in_a_table()
    text = (2 * chr(10)).join(("# Before", first, "# After", first.replace("0.000ms", "1.000ms")))
    whole = report(text, seconds=0.2)
    assert len(whole.headlines) == 2
    assert waited == [0.2]
    assert "took longer" in {entry.id: entry.reason.text for entry in whole.skipped}["broken-rule"]


def test_findings_that_cannot_be_sent_to_another_process_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(dict[str, object]):
        """Not known to other modules, so not sent."""

    def detect(facts: Facts) -> list[Draft]:
        return [Draft((Evidence(_TEXT(), 0.7, 0.5, "share", ()),), params=Local(), severity="info")]

    monkeypatch.setattr(selection, "known", lambda: (replace(BROKEN, trace=_detector(detect)),))
    assert [finding.rule for finding in report(fires()).findings] == ["broken-rule"]


def test_rules_of_this_package_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "known", selection.builtin)
    monkeypatch.setattr(processes, "contained", _throws(AssertionError("a process for a rule of this package")))
    assert report(fires()).findings


def test_a_rule_that_fails_in_one_run_of_several_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def detect(facts: Facts, limits: object) -> list[Draft]:
        if facts.run == "run-2":
            raise ZeroDivisionError("in the second")
        return []

    monkeypatch.setattr(selection, "known", lambda: (replace(BROKEN, table=detect),))
    first = fires_in_a_table()
    second = first.replace("0.000ms", "1.000ms")
    whole = report((2 * chr(10)).join(("# Before", first, "# After", second)))
    assert len(whole.headlines) == 2, "there are two runs"
    assert "in the second" in {entry.id: entry.reason.text for entry in whole.skipped}["broken-rule"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 7),
        ("id", "No id"),
        ("title", "no Text"),
        ("advice", None),
        ("thresholds", None),
        ("thresholds", ("x",)),
        ("thresholds", (Threshold("x", _NAN, "ns", "", ""),)),
        ("severity", None),
    ],
)
def test_a_rule_whose_parts_are_none_is_one_line(
    field: str, value: object, installed: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.append(point("BROKEN"))
    monkeypatch.setattr("tests.rules.test_third_party.BROKEN", replace(BROKEN, **{field: value}))
    with pytest.raises(UsageError, match=r"^rule theirs \(") as caught:
        report(quiet())
    assert len(str(caught.value).splitlines()) == 1


def test_a_rule_without_a_module_has_no_page() -> None:
    assert replace(BROKEN, trace=SimpleNamespace()).page == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("TAKEN", "the id dataloader-bound is taken"),
        ("NO_RULE", "is not a traceanalyzer.rules.engine.rule.Rule"),
        ("MISSING", "cannot be loaded"),
    ],
)
def test_an_entry_point_that_is_no_rule_is_one_line(installed: list[EntryPoint], value: str, wrong: str) -> None:
    installed.append(point(value))
    with pytest.raises(UsageError, match=wrong):
        report(quiet())


@pytest.mark.install
def test_the_example_package(tmp_path: Path) -> None:
    """Installed beside the package, its rule is listed and judges."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*command, tmp_path, ROOT / "examples" / "rule_package"], check=True, timeout=120)
    trace = ROOT / "fixtures" / "synthetic" / "gpu_training.json.gz"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from traceanalyzer.cli import main; main()"
    options = ["report", str(trace), "--select", "banned-operator", "--format", "json", "-o", "-", "-q"]
    run = subprocess.run(
        [sys.executable, "-c", code, *options], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(run.stdout)["findings"] == [], "it ran, and the trace has no such operator"
