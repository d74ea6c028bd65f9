"""Unchanged programs, captured from the command line."""

from __future__ import annotations

import gzip
import json
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.capture.capturing import (
    CAPTURE,
    PATIENCE_S,
    PROGRAMS,
    capture,
    facts,
    needs_torch,
    only,
    plainly,
    step_names,
    text,
    traces,
)
from tests.cli.running import ROOT, environment, spawn

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _torch() -> None:
    needs_torch()


def test_a_training_is_recorded_and_its_output_is_its_own(tmp_path: Path) -> None:
    arguments = ("16", "--workers", "2", "--epochs", "-x", "--")
    before, run = plainly("training.py", *arguments), capture(tmp_path, "training.py", *arguments, options=("-q",))
    assert (run.code, run.out, run.err) == (before.code, before.out, before.err)
    assert run.code == 7
    trace = only(tmp_path)
    assert re.fullmatch(r"trace_rank0_\d{8}T\d{6}Z\.json\.gz", trace.name)
    assert len(step_names(trace)) == 5
    tables = (tmp_path / trace.name.replace(".json.gz", ".key_averages.txt")).read_text("utf-8")
    assert re.findall(r"^# (.*)$", tables, re.MULTILINE) == ["By time on the CPU", "By shape of the inputs"]


def test_secrets_in_arguments_and_environment_stay_there(tmp_path: Path) -> None:
    """Commands and environments hold keys and passwords; what a capture writes may be sent to anybody."""
    planted = [f"hunter2-{place}-{random.Random(place).getrandbits(64):016x}" for place in ("argument", "variable")]
    variables = {"AWS_SECRET_ACCESS_KEY": planted[1], "HF_TOKEN": planted[1], "TRACEANALYZER_TEST": planted[1]}
    out = tmp_path / "out"
    run = capture(
        out, "training.py", "16", f"--token={planted[0]}", options=("--stacks",), env=environment(**variables)
    )
    assert run.code == 7
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"".join(path.suffixes[-2:]) for path in files} == {".json.gz", ".key_averages.txt"}
    for path in files:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert not any(secret.encode() in data for secret in planted), path.name
        assert b"hunter2" not in data
        assert not any(name.encode() in data for name in variables)
    assert "hunter2" not in ta.render(ta.analyze(ta.load(only(out))), "json")


def test_what_the_program_used_is_recorded(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "16", "--workers", "2", options=("--steps", "3", "--warmup", "4"))
    assert run.err.splitlines()[-1].startswith("Wrote ")
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.ended) == ("optimizer", 3, "complete")
    assert (found.asked.warmup, found.asked.steps) == (4, 3)
    assert found.loaders is not None
    assert [(loader.workers, loader.batch_size, loader.pin_memory) for loader in found.loaders] == [(2, 4, False)]
    assert found.autocast is not None
    assert [(a.device, a.dtype) for a in found.autocast] == [("cpu", "bfloat16")]
    assert [(o.name, o.tensors, o.fused) for o in found.optimizers] == [("AdamW", 4, None)]
    assert found.parameters is not None
    assert (found.parameters.tensors, found.parameters.elements) == (4, 8 * 16 + 16 + 16 * 2 + 2)
    assert (found.backward_per_step, found.batches_per_step) == (1.0, 1.0)
    assert (found.is_compiled, found.is_training, found.distributed, found.parallel) == (False, True, None, ())
    timing = found.timing
    assert timing.before is not None
    assert timing.profiled is not None
    assert timing.after is not None
    assert (timing.before.steps, timing.profiled.steps, timing.after.steps) == (2, 3, 5)
    report = json.loads(ta.render(ta.analyze(ta.load(only(tmp_path))), "json"))
    assert report["analyses"]["capture"]["facts"]["optimizers"][0]["name"] == "AdamW"


def test_steps_of_a_trainer_end_where_its_optimizer_has_stepped(tmp_path: Path) -> None:
    run = capture(tmp_path, "trainer.py", options=("--report",))
    assert run.code == 0
    assert "Step time" in run.out
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.backward_per_step) == ("optimizer", 5, 2.0)
    assert (found.optimizers[0].name, found.optimizers[0].foreach) == ("SGD", True)
    assert len(found.loaders or ()) == 2


def test_collections_of_garbage_are_recorded_and_told(tmp_path: Path) -> None:
    """Each step collects once, and Python itself may do so now and then."""
    run = capture(tmp_path, "collecting.py", options=("--steps", "5"))
    assert run.code == 0, run.err
    garbage = facts(only(tmp_path)).garbage
    assert garbage is not None
    assert 5 <= garbage.collections <= 6
    assert garbage.ns > 0
    (told,) = (found for found in ta.analyze(ta.load(only(tmp_path))).findings if found.rule == "work-beside-training")
    assert "collecting garbage" in told.summary.text


def test_what_loading_took_is_recorded(tmp_path: Path) -> None:
    """Six recorded steps in epochs of four: the ends of epochs are no batches, nor is the loader within a loader."""
    run = capture(tmp_path, "loading.py", options=("--steps", "6"))
    assert run.code == 0, run.err
    loaders = facts(only(tmp_path)).loaders
    assert loaders is not None
    slept, worked, within, from_worker = [loader.fetching for loader in loaders if loader.epochs > 1]
    assert from_worker is None
    assert slept is not None
    assert worked is not None
    assert within is not None
    assert [each.batches for each in (slept, worked, within)] == [6, 6, 6]
    assert not any(loader.fetching for loader in loaders if loader.epochs == 1)
    assert min(each.ns for each in (slept, worked, within)) >= 6 * 10_000_000
    assert worked.cpu_ns >= 6 * 10_000_000
    assert worked.asleep_ns is not None
    assert worked.asleep_ns <= max(0, worked.ns - worked.cpu_ns)  # two clocks
    assert (slept.queued_ns is None) == (slept.asleep_ns is None)


def test_every_rank_of_torchrun_writes_one(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run = capture(tmp_path, "ranks.py", options=("--steps", "3"), via=launcher)
    assert run.code == 0, run.err
    _assert_two_ranks(tmp_path)


def test_every_spawned_rank_writes_one(tmp_path: Path) -> None:
    run = capture(tmp_path / "out", "ranks.py", "--spawn", tmp_path / "meeting", options=("--steps", "3"))
    assert run.code == 0, run.err
    _assert_two_ranks(tmp_path / "out")


def _assert_two_ranks(folder: Path) -> None:
    found = traces(folder)
    assert [re.sub(r"_\d.*", "", trace.name) for trace in found] == ["trace_rank0", "trace_rank1"]
    for rank, trace in enumerate(found):
        of_rank = facts(trace)
        assert of_rank.distributed is not None
        assert (of_rank.distributed.rank, of_rank.distributed.world_size) == (rank, 2)
        assert (of_rank.distributed.backend, of_rank.steps) == ("gloo", 3)
        assert [wrapper.name for wrapper in of_rank.parallel] == ["DistributedDataParallel"]


def test_batches_mark_steps_where_nothing_trains(tmp_path: Path) -> None:
    run = capture(tmp_path, "inference.py", options=("--steps", "4"))
    assert run.code == 0
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.is_training) == ("dataloader", 4, False)
    assert found.optimizers == ()


def test_a_program_without_steps_is_one_step_and_the_user_is_told(tmp_path: Path) -> None:
    run = capture(tmp_path, "no_steps.py")
    assert (run.code, run.out) == (0, "done\n")
    assert "found no steps" in run.err
    trace = only(tmp_path)
    assert facts(trace).steps_from is None
    assert text(trace).count('"aten::mm"') == 20


def test_too_few_steps_leave_the_start_and_say_how_many_are_needed(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "2")
    assert run.code == 7
    assert "ended after 2 steps" in run.err
    assert "8 are needed" in run.err
    assert facts(only(tmp_path)).steps_from == "optimizer"


def test_a_program_that_profiles_itself_gets_its_trace(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    run = capture(tmp_path / "out", "own_profiler.py", own, "6")
    assert (run.code, run.out) == (0, "profiled\n")
    assert sorted(set(re.findall(r"ProfilerStep#\d", own.read_text("utf-8")))) == ["ProfilerStep#4", "ProfilerStep#5"]


def test_steps_after_the_programs_own_profiler_are_recorded(tmp_path: Path) -> None:
    run = capture(tmp_path / "out", "own_profiler.py", tmp_path / "own.json", "30")
    assert run.code == 0
    assert facts(only(tmp_path / "out")).steps == 5
    assert "ProfilerStep#5" in (tmp_path / "own.json").read_text("utf-8")


def test_steps_of_the_programs_own_profiler_are_not_among_ours(tmp_path: Path) -> None:
    """While it waits for its turn, torch's profiler already marks steps."""
    run = capture(tmp_path / "out", "own_profiler.py", tmp_path / "own.json", "30", "--wait", "25")
    assert run.code == 0
    trace = only(tmp_path / "out")
    assert step_names(trace) == [f"ProfilerStep#{number}" for number in range(1, 6)]
    assert facts(trace).steps == 5
    assert "ProfilerStep#27" in (tmp_path / "own.json").read_text("utf-8")


def test_ranges_around_everything_are_survived(tmp_path: Path) -> None:
    """A range that begins in one recording and ends in another crashes torch 2.13; here it begins before all."""
    run = capture(tmp_path, "training.py", "9", "--range", options=("--steps", "6"))
    assert run.code == 7
    assert facts(only(tmp_path)).steps == 6


def test_a_training_in_a_thread_is_recorded(tmp_path: Path) -> None:
    """The main thread waits for it meanwhile, and two profilers at a time must not be."""
    run = capture(tmp_path, "in_a_thread.py", options=("-q",))
    assert (run.code, run.out, run.err) == (0, "", "")
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps) == ("optimizer", 5)
    assert text(only(tmp_path)).count('"aten::addmm"') == 5


def test_threads_are_part_of_the_whole_run(tmp_path: Path) -> None:
    """Nothing in the thread ends a step."""
    run = capture(tmp_path, "in_a_thread.py", "--without-steps")
    assert (run.code, run.out) == (0, "")
    assert "found no steps (no step of an optimizer, no batch of a DataLoader, no call of a module)" in run.err
    assert text(only(tmp_path)).count('"aten::mm"') == 3


@pytest.mark.parametrize("kind", ["compiled", "idle"])
def test_updates_mark_steps_where_no_optimizer_is_seen_to_step(tmp_path: Path, kind: str) -> None:
    run = capture(tmp_path, "unseen_optimizer.py", kind, "20")
    assert run.code == 0, run.err
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.backward_per_step) == ("update", 5, 1.0)


def test_what_was_seen_is_told_where_it_made_no_steps(tmp_path: Path) -> None:
    run = capture(tmp_path, "unseen_optimizer.py", "idle", "3")
    assert "found no steps (3 calls of modules, 3 batches, 3 backward passes, no step of an optimizer)" in run.err
    assert facts(only(tmp_path)).steps_from is None


def test_calls_of_the_outermost_module_are_steps_of_a_program_without_others(tmp_path: Path) -> None:
    """The one around them is called `generate`, and each call is a token of two rows; compiled code is left alone."""
    run = capture(tmp_path, "generating.py", "40")
    assert (run.code, run.out) == (0, "1 graph, 0 breaks\n"), run.err
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.rows_per_step, found.generates) == ("module", 5, 2.0, True)
    assert found.timing.after is not None


def test_a_recording_of_everything_ends_when_it_is_large(tmp_path: Path) -> None:
    run = capture(tmp_path, "no_steps.py", "100000")
    assert (run.code, run.out) == (0, "done\n")
    assert "in which there were as many events as are kept" in run.err
    assert text(only(tmp_path)).count('"ph": "X"') < 200_000


def test_two_profilers_are_refused_before_torch_crashes(tmp_path: Path) -> None:
    code = (
        "import sys, torch\nfrom traceanalyzer.capture import profile\n"
        "with torch.profiler.profile() as own:\n"
        "    try: profile(sys.argv[1]).__enter__()\n"
        "    except Exception as error: print(error)\n"
        "with profile(sys.argv[1], steps=2, warmup=0) as ours:\n"
        "    torch.ones(3).add(1); ours.step()\n"
        "    with torch.profiler.profile() as own: torch.ones(3).add(1)\n"
        "print(ours.trace is not None, len(own.events()) > 0)\n"
    )
    run = spawn(str(tmp_path), program=(sys.executable, "-c", code), env={"PYTHONPATH": str(ROOT)})
    assert run.code == 0, run.err
    assert run.out.splitlines() == [
        "a profiler is active, and torch crashes if another one starts: end that one first",
        "True True",
    ]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module", "the program failed before it had imported torch (exit code 1)"),
        ("print(1)", "the program imported no torch"),
        ("import os, torch; torch.ones(1).add(1); os._exit(3)", "without a chance to save anything (exit code 3)"),
        ("import os, torch; os.kill(os.getpid(), 9)", "without a chance to save anything (ended by SIGKILL)"),
        ("import torch", "the program imported torch, but ran nothing"),
        ("import torch; 1 / 0", "the program failed before it used torch (exit code 1)"),
    ],
)
def test_each_way_to_capture_nothing_has_a_text_of_its_own(tmp_path: Path, code: str, why: str) -> None:
    run = spawn("-o", str(tmp_path), "--", sys.executable, "-c", code, program=CAPTURE, patience_s=PATIENCE_S)
    last = run.err.splitlines()[-1]
    assert last.startswith("traceanalyzer: warning: nothing was captured: ")
    assert why in last


def test_the_recording_with_the_slowest_step_is_kept(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "60", "--slow-at", "14", options=("--slowest", "30", "--steps", "2"))
    assert run.code == 7, run.err
    found = facts(only(tmp_path))
    assert (found.steps, found.ended, len(step_names(only(tmp_path)))) == (2, "complete", 2)
    assert max(step.ns for step in found.recorded) >= 400_000_000
    assert found.timing.profiled is not None
    assert found.timing.profiled.steps == 2


def test_the_slowest_step_so_far_is_kept_when_a_program_ends_early(tmp_path: Path) -> None:
    capture(tmp_path, "training.py", "24", "--slow-at", "8", options=("--slowest", "500", "--steps", "2"))
    assert max(step.ns for step in facts(only(tmp_path)).recorded) >= 400_000_000


def test_a_recording_begins_again_after_some_steps(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "50", options=("--every", "12", "--steps", "2"))
    assert run.code == 7, run.err
    found = [facts(trace) for trace in traces(tmp_path)]
    assert [one.steps for one in found] == [2, 2, 2]
    assert all(one.timing.after is not None and one.timing.before is not None for one in found)


def test_a_signal_asks_for_a_recording(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*CAPTURE, "-o", tmp_path, "--on-signal", "--", sys.executable, PROGRAMS / "training.py", "400", "--forever"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for wanted in (1, 2):
            for _ in range(20):  # it trains
                assert process.stdout.readline().startswith("step ")
            assert len(traces(tmp_path)) == wanted - 1
            process.send_signal(signal.SIGUSR1)
            while len(traces(tmp_path)) < wanted:
                assert process.stdout.readline().startswith("step ")
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=PATIENCE_S)[1]
    finally:
        process.kill()
    assert errors.startswith(f"traceanalyzer: nothing is recorded until you ask for it: kill -USR1 {process.pid}\n")
    assert [facts(trace).steps for trace in traces(tmp_path)] == [5, 5]


def test_nobody_asked_for_a_recording(tmp_path: Path) -> None:
    run = capture(tmp_path, "training.py", "9", options=("--on-signal",))
    assert run.code == 7
    assert "nobody asked for a recording with SIGUSR1" in run.err.splitlines()[-1]
    both = capture(tmp_path, "training.py", "9", options=("--on-signal", "--every", "3"))
    why = "traceanalyzer: --every and --on-signal: choose one; both say when to record again\n"
    assert (both.code, both.err) == (2, why)


def test_forked_processes_that_train_write_one_each(tmp_path: Path) -> None:
    run = capture(tmp_path, "forks.py", options=("--steps", "2"))
    assert (run.code, run.out) == (0, "[0, 0] 1\n"), run.err
    assert [facts(trace).steps for trace in traces(tmp_path)] == [2, 2]


def test_captures_of_the_same_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for _ in range(2):
        capture(tmp_path, "training.py", "9", options=("--steps", "2", "--warmup", "1"))
    assert len(traces(tmp_path)) == 2


def test_nothing_in_the_files_names_a_machine_a_user_or_a_folder(tmp_path: Path) -> None:
    home = tmp_path / "home" / "jane.doe"
    project = home / "my project"
    project.mkdir(parents=True)
    script = project / "training.py"
    script.write_bytes((PROGRAMS / "training.py").read_bytes())
    command = [*CAPTURE, "--stacks", "--memory", "-o", "out", "--", sys.executable, str(script), "12"]
    env = environment(HOME=str(home), USER="jane.doe", LOGNAME="jane.doe")
    run = subprocess.run(command, cwd=project, env=env, capture_output=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 7, run.stderr
    assert b"CPUAllocator" not in run.stderr
    trace = only(project / "out")
    for written in (text(trace), (project / "out" / trace.name.replace(".json.gz", ".key_averages.txt")).read_text()):
        assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", written)
        for secret in ("host_name", "traceName", "jane.doe", str(tmp_path), str(Path(sys.prefix)), str(Path.home())):
            assert secret not in written, secret
    assert '"training.py(' in text(trace)
    assert '"torch/nn/modules/' in text(trace)


# How programs end
