"""What must hold of a report, of a prediction and of a comparison of the same trace, from its text alone.

An oracle: it shares no code with the package. Everything is in ns since the first event, as in the JSON of a report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

Span = tuple[int, int]
"""Start and end."""
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LATENCY_NS = 7_000
_TOLERANCE_NS = 2
"""Of sums of rounded times."""
_PERIODS = 0.04
"""Share of a step, and of what is in it, by which the period of repeated steps may differ from those recorded."""


def union(spans: Iterator[Span] | list[Span]) -> list[Span]:
    """The spans without overlap, in the order of time."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif end > start:
            out.append((start, end))
    return out


def common(one: list[Span], other: list[Span]) -> int:
    """How long both are, together."""
    return sum(max(0, min(b, d) - max(a, c)) for a, b in union(one) for c, d in union(other))


def length(spans: list[Span]) -> int:
    """How long they are together."""
    return sum(end - start for start, end in union(spans))


@dataclass(frozen=True)
class Raw:
    """What runs on devices."""

    events: tuple[tuple[Span, int, int], ...]
    """Time, device and stream of each."""
    kernels: tuple[Span, ...] = ()
    """Time of each kernel."""

    @classmethod
    def of(cls, text: bytes) -> Raw:
        """What a trace contains."""
        events = json.loads(text, parse_float=Decimal)["traceEvents"]
        timed = [event for event in events if event["ph"] == "X" and event.get("cat") != "Trace"]
        first = min(Decimal(event["ts"]) for event in timed)

        def span(event: dict[str, Any]) -> Span:
            start = int((Decimal(event["ts"]) - first) * 1000)
            return start, start + int(Decimal(event["dur"]) * 1000)

        own = [event for event in timed if event["cat"] in _ON_DEVICE]
        kernels = tuple(span(event) for event in own if event["cat"] == "kernel")
        return cls(tuple((span(event), event["args"]["device"], event["args"]["stream"]) for event in own), kernels)

    def busy(self, device: int | None) -> list[Span]:
        """When something runs on a device, or on any."""
        return [span for span, number, _ in self.events if device is None or number == device]

    def room_ns(self, device: int, steps: list[Span]) -> int:
        """For how long of some steps the stream with most work does nothing."""
        streams = {stream for _, number, stream in self.events if number == device}
        most = max(
            common([span for span, number, stream in self.events if (number, stream) == (device, one)], steps)
            for one in streams
        )
        return length(steps) - most


@dataclass(frozen=True)
class Case:
    """What the program says of one trace, as JSON."""

    raw: Raw
    report: dict[str, Any]
    what_if: dict[str, Any]
    difference: dict[str, Any]
    """Of the trace with itself."""

    @property
    def steps(self) -> list[Span]:
        """The typical steps."""
        steps = self.report["analyses"].get("recording", {}).get("steps", ())
        return [(s["start_ns"], s["start_ns"] + s["duration_ns"]) for s in steps if s["is_typical"]]

    @property
    def step_ns(self) -> float | None:
        """Duration of the typical step."""
        return self.report["analyses"].get("recording", {}).get("typical_step_ns")  # type: ignore[no-any-return]

    @property
    def resources(self) -> dict[str, Any]:
        """Time of each resource in the typical step."""
        return (self.report["analyses"].get("recording", {}).get("typical") or {}).get("resources", {})  # type: ignore[no-any-return]

    @property
    def device(self) -> int | None:
        """The busiest device."""
        return self.resources.get("device")


def broken(case: Case) -> Iterator[tuple[str, str]]:
    """Law and violation, for all of them."""
    if not case.steps or not length(case.steps):
        return
    for law in (_shares, _savings, _together, _where, _once, _rows, _tables, _marks, _same_step, _itself):
        yield from law(case)


def _shares(case: Case) -> Iterator[tuple[str, str]]:
    """The shares of a step add up, and the idle one is that of the events."""
    if case.device is None:
        return
    idle = 1 - common(case.raw.busy(case.device), case.steps) / length(case.steps)
    for headline in case.report["headlines"]:
        shares = headline["shares"]
        total = sum(share or 0.0 for share in shares.values())
        if abs(total - 1) > 1e-6:
            yield "shares", f"they add up to {total}"
        if abs(shares["idle"] - idle) > 1e-6:
            yield "shares", f"idle is {shares['idle']}, of the events {idle}"


def _savings(case: Case) -> Iterator[tuple[str, str]]:
    """Savings are ordered, and physics allows them."""
    for finding in case.report["findings"]:
        saving = finding["saving"]
        if saving is None:
            continue
        (least, most), point = saving["wall_ns_per_step"], saving["point_ns_per_step"]
        step = saving["step_ns"] or case.step_ns
        between = [0.0, least, least if point is None else point, most, *([] if step is None else [step])]
        if any(one > other + _TOLERANCE_NS for one, other in pairwise(between)):
            yield "order", f"{finding['rule']}: {between}"
        if case.device is None or case.step_ns is None:
            continue
        room = case.raw.room_ns(case.device, case.steps) / len(case.steps)
        held = sum(entry["ns_per_step"] or 0.0 for entry in finding["where"] if entry["kind"] == "device")
        bound = room + (held if saving["resource"] == "gpu" else 0.0)
        if (
            saving["resource"] in ("gpu", "host", "loader")
            and most > 1.05 * bound + _PERIODS * (step or 0.0) + _TOLERANCE_NS
        ):
            yield "bounds", f"{finding['rule']}: {most} of {saving['resource']}, at most {bound}"


def _together(case: Case) -> Iterator[tuple[str, str]]:
    """All fixes together save no less than the best one, and no more than the step.

    It may be more than their sum: without one wait the host only waits longer at the next one.
    """
    for combined in filter(None, (headline["combined"] for headline in case.report["headlines"])):
        fixes = [case.report["findings"][fix["finding"]]["saving"] for fix in combined["fixes"]]
        best = max((saving["point_ns_per_step"] or 0.0 for saving in fixes), default=0.0)
        point, most = combined["point_ns_per_step"], combined["wall_ns_per_step"][1]
        for fix in combined["fixes"]:
            finding, (low, high) = case.report["findings"][fix["finding"]], fix["wall_ns_per_step"]
            later = finding["after_fixes_ns_per_step"]
            if later != ([low, fix["point_ns_per_step"], high] if finding["latent"] else None):
                yield "later", f"{fix['rule']}: {later} of {low} to {high}"
        if point is not None and not best - _TOLERANCE_NS <= point <= most + _TOLERANCE_NS:
            yield "together", f"{point} of at most {most}, one alone {best}"
        if case.step_ns is not None and most > case.step_ns + _TOLERANCE_NS:
            yield "together", f"{most} of a step of {case.step_ns}"


def _rows(case: Case) -> Iterator[tuple[str, str]]:
    """What helps saves no more than the step; half no more than all, and a part no more than the whole."""
    step = case.what_if["step_ns"]
    rows = {row["selector"]: row for row in case.what_if["helps"] if row["free_ns"][1] is not None}
    wholes = {name: rows[name]["free_ns"][1] for name in ("gpu", "host", "loader") if name in rows}
    # An owner of host time may be the loader.
    bounds = {"class:": wholes.get("gpu", step), "owner:": wholes.get("host", step) + wholes.get("loader", 0.0)}
    bounds["kernel:"] = bounds["class:"]
    if case.device is not None:
        room = case.raw.room_ns(case.device, case.steps) / len(case.steps)
        bounds |= {"--graphs": room, "--no-sync": room}
    for name, row in rows.items():
        free, half = row["free_ns"][1], row["half_ns"] and row["half_ns"][1]
        most = min([step, *(bound for begins, bound in bounds.items() if name.startswith(begins))])
        if free > most + _TOLERANCE_NS:
            yield "rows", f"{name}: {free} of {most}"
        if name == "gpu" and case.resources.get("host_ns") is not None:
            left = sum(case.resources[part] or 0.0 for part in ("host_ns", "loader_ns", "exposed_communication_ns"))
            # What is launched and waited for arrives some microseconds later, however fast the device is.
            late = sum(common([span], case.steps) > 0 for span, *_ in case.raw.events) / len(case.steps) * _LATENCY_NS
            if step - free > 1.1 * left + 0.05 * step + late:
                yield "free-device", f"it leaves {step - free}, the host has {left}"
        if half is not None and half > free + _TOLERANCE_NS:
            yield "rows", f"{name}: half saves {half}, all {free}"


def _tables(case: Case) -> Iterator[tuple[str, str]]:
    """Tables of kernels and of their classes sum up what starts in typical steps; places have the means of these."""
    found = {key: case.report["analyses"].get(key) for key in ("kernels", "kernel_classes")}
    if None in found.values() or case.report["analyses"]["recording"]["steps_from"] == "whole-trace":
        return
    own = {key: one["rows"] if one["in_steps"] is None else one["in_steps"] for key, one in found.items()}
    total = sum(end - start for start, end in case.raw.kernels if any(a <= start < b for a, b in case.steps))
    for key, rows in own.items():
        if sum(row["total_ns"] for row in rows) != total:
            yield "tables", f"{key}: {sum(row['total_ns'] for row in rows)} of {total}"
    times = {row["name"]: (row["total_ns"] - row["earlier_ns"]) / len(case.steps) for row in own["kernels"]}
    for finding in case.report["findings"]:
        places = [place for evidence in finding["evidence"] for place in evidence["where"]]
        for place in places:
            is_sum = place["kind"] == "kernel" and place["unit"] == "ns" and place["start_ns"] is None
            if is_sum and abs(place["value"] - times.get(place["name"], place["value"])) > _TOLERANCE_NS:
                yield "tables", f"{finding['rule']}: {place['value']} of {times[place['name']]}"


def _marks(case: Case) -> Iterator[tuple[str, str]]:
    """A mark takes no more of a typical step than there is of it."""
    steps, phases = len(case.steps), case.report["analyses"].get("phases") or {"rows": [], "tree": []}
    idle = length(case.steps) - common(case.raw.busy(None), case.steps)
    device = sum(common([span], case.steps) for span, *_ in case.raw.events)
    for row in [*phases["rows"], *phases["tree"]]:
        bounds = {"host": row["threads"] * length(case.steps), "device": device, "idle": idle}
        for name, most in bounds.items():
            time = row[f"{name}_ns_per_typical_step"]
            if time is not None and time * steps > most + _TOLERANCE_NS:
                yield "marks", f"{row['name']}: {name} {time} of {most / steps}"


def _where(case: Case) -> Iterator[tuple[str, str]]:
    """What a finding is about lies in the typical steps, is there, adds up, and is what its summary says."""
    for finding in case.report["findings"]:
        rule, saving = finding["rule"], finding["saving"]
        if saving and saving["wall_ns_per_step"][1] > 0 and not finding["where"]:
            yield "where", f"{rule}: nowhere"
        for entry in finding["where"]:
            yield from ((law, f"{rule}: {text}") for law, text in _entry(case, entry))
        figures = [entry["ns_per_step"] for entry in finding["where"] if entry["ns_per_step"] is not None]
        said = [*_figures(finding["summary"]["params"])]
        wanted = {*figures, sum(figures)}
        if figures and saving and not any(abs(one - other) <= 0.02 * other + 1 for one in said for other in wanted):
            yield "said", f"{rule}: {sum(figures)} is not in the summary"


def _entry(case: Case, entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    spans = [(start, start + duration) for start, duration in entry["spans"]]
    total = sum(duration for _, duration in entry["spans"]) + entry["omitted_ns"]
    if length(spans) != sum(duration for _, duration in entry["spans"]):
        yield "where", "a time is there twice"
    if entry["outside_steps"]:
        return
    if abs(entry["ns_per_step"] * len(case.steps) - total) > _TOLERANCE_NS:
        yield "where", f"{entry['ns_per_step']} per step, but {total} in {len(case.steps)}"
    if common(spans, case.steps) < length(spans):
        yield "where", "a time lies in no typical step"
    busy = common(spans, case.raw.busy(entry["device"] if entry["kind"] == "idle" else None))
    if entry["kind"] == "device" and busy < length(spans):
        yield "where", "nothing runs in a time"
    if entry["kind"] == "idle" and busy:
        yield "where", "the device works in idle time"


def _figures(value: Any) -> Iterator[float]:
    """All numbers in the parameters of a message."""
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _figures(child)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _once(case: Case) -> Iterator[tuple[str, str]]:
    """Idle time is claimed by one finding, unless it says that it shares."""
    claims = [
        (finding["rule"], entry["device"], [(start, start + duration) for start, duration in entry["spans"]])
        for finding in case.report["findings"]
        for entry in finding["where"]
        if entry["kind"] == "idle" and not entry["shared"]
    ]
    for number, (rule, device, spans) in enumerate(claims):
        for other, there, theirs in claims[number + 1 :]:
            if other != rule and there == device and common(spans, theirs):
                yield "once", f"{rule} and {other}"


def _same_step(case: Case) -> Iterator[tuple[str, str]]:
    """Report, prediction and comparison speak of the same step."""
    if case.step_ns is None:
        return
    base, head = (case.difference["step_time"][side] for side in ("base", "head"))
    others = {"whatif": case.what_if["step_ns"], "base": base["mean_ns"], "head": head["mean_ns"]}
    for name, other in others.items():
        if abs(other - case.step_ns) > _TOLERANCE_NS:
            yield "same-step", f"report {case.step_ns}, {name} {other}"


def _itself(case: Case) -> Iterator[tuple[str, str]]:
    """A trace compared with itself did not change."""
    outcome = case.difference["verdict"]["outcome"]
    if outcome in ("faster", "slower"):
        yield "self", f"it is {outcome}"
    for finding in case.difference["findings"]:
        if finding["status"] in ("fixed", "new"):
            yield "self", f"{finding['rule']} is {finding['status']}"
