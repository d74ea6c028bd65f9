"""Laws that every report obeys: they hold for random programs, and a fault of each kind is found."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import traceanalyzer as ta
from tests.random_programs import Program
from tests.reading import read
from tests.report_laws import Case, Raw, broken

KNOWN = (
    # What runs on after the last step is kept, however fast the device is.
    ("free-device", ""),
)
"""Laws that are still broken, and how a violation begins; to be emptied."""
TYPICAL = Program(
    (("load", 900, 1), ("upload", 500, 2), ("clone", 400, 6), ("read", 1, 3), ("python", 700, 1), ("product", 300, 4))
)
"""A program with findings about a device, a thread and idle time."""
PROGRAMS = (
    TYPICAL,
    Program((("graph", 400, 3), ("read", 1, 1))),
    Program((("wait", 1, 1), ("elementwise", 100, 6), ("reduce", 700, 2)), steps=5, twice=2),
    Program((("python", 800, 1), ("script", 300, 2), ("elementwise", 40, 6)), is_marked=False),
    Program((("script", 8, 2), ("python", 8, 1), ("clone", 572, 1)), steps=3, is_marked=False),
    Program((("elementwise", 8, 3), ("python", 8, 1), ("clone", 468, 2)), steps=3, is_marked=False),
    Program((("reduce", 140, 5), ("upload", 106, 3)), steps=3, is_marked=False, twice=1),
    Program((("reduce", 454, 4), ("python", 203, 4)), steps=4, is_marked=False, twice=3, seed=9),
    Program((("graph", 161, 1),), steps=1, is_marked=False),
)
"""Programs of which some report once broke a law."""
SEEDS = 1000 if os.environ.get("TRACEANALYZER_FULL") == "1" else 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def case_of(program: Program, folder: Path) -> Case:
    """What the program says of the recording of another one."""
    text, path = program.build().to_bytes(), folder / "trace.json"
    path.write_bytes(text)
    trace = read(text)
    report = json.loads(ta.render(ta.analyze(trace), "json"))
    answers = ta.whatif(trace), ta.diff(path, path)
    return Case(Raw.of(text), report, *(json.loads(msgspec.json.encode(answer)) for answer in answers))


def known(violation: tuple[str, str]) -> bool:
    return any(violation[0] == law and violation[1].startswith(text) for law, text in KNOWN)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_obey_the_laws(folder: Path, program: Program) -> None:
    assert [violation for violation in broken(case_of(program, folder)) if not known(violation)] == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_programs_obey_the_laws(folder: Path, seed: int) -> None:
    program = Program.random(seed)
    assert [violation for violation in broken(case_of(program, folder)) if not known(violation)] == [], program


# Faults that are planted, so that no law holds because it tests nothing.


@cache
def whole(folder: Path) -> Case:
    return case_of(TYPICAL, folder)


def entries(case: Case, kind: str) -> Iterator[dict[str, Any]]:
    """Where findings are, of one kind."""
    for finding in case.report["findings"]:
        yield from (entry for entry in finding["where"] if entry["kind"] == kind)


def saving(case: Case, resource: str) -> dict[str, Any]:
    found = (finding["saving"] for finding in case.report["findings"] if finding["saving"])
    return next(saving for saving in found if saving["resource"] == resource and saving["wall_ns_per_step"][1] > 0)


def row(case: Case, begins: str) -> dict[str, Any]:
    return next(row for row in case.what_if["helps"] if row["selector"].startswith(begins))


def _more_than_everything(case: Case) -> None:
    case.report["headlines"][0]["shares"]["copies"] += 0.01


def _busier_than_the_events(case: Case) -> None:
    shares = case.report["headlines"][0]["shares"]
    shares["idle"], shares["computes"] = shares["idle"] - 0.01, shares["computes"] + 0.01


def _most_likely_is_more_than_most(case: Case) -> None:
    found = saving(case, "gpu")
    found["point_ns_per_step"] = found["wall_ns_per_step"][1] * 1.01


def _more_than_the_step(case: Case) -> None:
    saving(case, "gpu")["wall_ns_per_step"][1] = case.step_ns * 1.01


def _waits_save_device_work(case: Case) -> None:
    saving(case, "loader")["wall_ns_per_step"][1] = case.step_ns


def _kernels_save_more_than_they_take(case: Case) -> None:
    saving(case, "gpu")["wall_ns_per_step"][1] = case.step_ns


def _fixes_save_more_together(case: Case) -> None:
    case.report["headlines"][0]["combined"]["wall_ns_per_step"][1] = case.step_ns * 1.01


def _fixes_save_less_together(case: Case) -> None:
    case.report["headlines"][0]["combined"]["point_ns_per_step"] = 0.0


def _latent_without_what_it_adds(case: Case) -> None:
    case.report["findings"][case.report["headlines"][0]["combined"]["fixes"][0]["finding"]]["latent"] = True


def _nowhere(case: Case) -> None:
    for finding in case.report["findings"]:
        finding["where"] = []


def _before_the_steps(case: Case) -> None:
    entry = next(entries(case, "device"))
    entry["spans"][0] = [0, entry["spans"][0][1]]


def _times_that_do_not_add_up(case: Case) -> None:
    next(entries(case, "device"))["ns_per_step"] *= 1.5


def _nothing_runs(case: Case) -> None:
    idle, busy = next(entries(case, "idle")), next(entries(case, "device"))
    busy.update({name: idle[name] for name in ("spans", "omitted_ns", "ns_per_step")})


def _the_device_works(case: Case) -> None:
    idle, busy = next(entries(case, "idle")), next(entries(case, "device"))
    idle.update({name: busy[name] for name in ("spans", "omitted_ns", "ns_per_step")})


def _twice_there(case: Case) -> None:
    entry = next(entries(case, "device"))
    entry["spans"].append(entry["spans"][-1])
    entry["ns_per_step"] += entry["spans"][-1][1] / len(case.steps)


def _another_figure(case: Case) -> None:
    for finding in case.report["findings"]:
        finding["summary"]["params"] = {"time": 1e12}


def _idle_time_of_another(case: Case) -> None:
    first, other, *_ = case.report["findings"]
    other["where"].append(copy.deepcopy(next(entries(case, "idle"))))
    first["where"].append({**other["where"][-1], "shared": False})
    other["where"][-1]["shared"] = False


def _another_step(case: Case) -> None:
    case.what_if["step_ns"] *= 1.01


def _another_side(case: Case) -> None:
    case.difference["step_time"]["head"]["mean_ns"] *= 1.01


def _more_than_is_there(case: Case) -> None:
    row(case, "gpu")["free_ns"][1] = case.step_ns * 1.01


def _a_part_saves_more(case: Case) -> None:
    row(case, "class:")["free_ns"][1] = row(case, "gpu")["free_ns"][1] * 1.01


def _half_saves_more(case: Case) -> None:
    found = row(case, "gpu")
    found["half_ns"][1] = found["free_ns"][1] * 1.01


def _a_free_device_takes_time(case: Case) -> None:
    row(case, "gpu")["free_ns"][1] = row(case, "gpu")["half_ns"][1] = 0.0


def _graphs_save_device_work(case: Case) -> None:
    row(case, "--")["free_ns"][1] = case.step_ns


def _a_table_of_all_steps(case: Case) -> None:
    classes = case.report["analyses"]["kernel_classes"]
    classes["in_steps"] = [{**row, "total_ns": row["total_ns"] + 1} for row in classes["in_steps"] or classes["rows"]]


def _a_place_of_all_steps(case: Case) -> None:
    kernel = case.report["analyses"]["kernels"]["rows"][0]
    place = {"kind": "kernel", "name": kernel["name"], "value": kernel["total_ns"], "unit": "ns", "start_ns": None}
    case.report["findings"][0]["evidence"][0]["where"].append(place)


def _a_mark_of_all_steps(case: Case) -> None:
    times = {f"{name}_ns_per_typical_step": None for name in ("device", "idle")}
    row = {"name": "run", "threads": 1, "host_ns_per_typical_step": 2 * case.step_ns, **times}
    case.report["analyses"]["phases"] = {"rows": [row], "tree": []}


def _faster_than_itself(case: Case) -> None:
    case.difference["verdict"]["outcome"] = "faster"


def _fixed_without_a_change(case: Case) -> None:
    case.difference["findings"][0]["status"] = "fixed"


FAULTS: tuple[tuple[str, Callable[[Case], None]], ...] = (
    ("shares", _more_than_everything),
    ("shares", _busier_than_the_events),
    ("order", _most_likely_is_more_than_most),
    ("order", _more_than_the_step),
    ("bounds", _waits_save_device_work),
    ("bounds", _kernels_save_more_than_they_take),
    ("together", _fixes_save_more_together),
    ("together", _fixes_save_less_together),
    ("later", _latent_without_what_it_adds),
    ("where", _nowhere),
    ("where", _before_the_steps),
    ("where", _times_that_do_not_add_up),
    ("where", _nothing_runs),
    ("where", _the_device_works),
    ("where", _twice_there),
    ("said", _another_figure),
    ("once", _idle_time_of_another),
    ("same-step", _another_step),
    ("same-step", _another_side),
    ("rows", _more_than_is_there),
    ("rows", _a_part_saves_more),
    ("rows", _half_saves_more),
    ("free-device", _a_free_device_takes_time),
    ("rows", _graphs_save_device_work),
    ("tables", _a_table_of_all_steps),
    ("tables", _a_place_of_all_steps),
    ("marks", _a_mark_of_all_steps),
    ("self", _faster_than_itself),
    ("self", _fixed_without_a_change),
)


@pytest.mark.parametrize(("law", "plant"), FAULTS, ids=[plant.__name__.strip("_") for _, plant in FAULTS])
def test_a_fault_is_found(folder: Path, law: str, plant: Callable[[Case], None]) -> None:
    case = copy.deepcopy(whole(folder))
    before = set(broken(case))
    plant(case)
    assert law in {found for found, _ in set(broken(case)) - before}
