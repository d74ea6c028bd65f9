"""The texts of docs/lab.md around its tables."""

from __future__ import annotations

BEFORE = """# The bottleneck lab

Written by `scripts/lab_page.py` from `examples/lab/results` and `fixtures/lab`; `make docs` checks it.

What is advice worth? `examples/lab` contains faults of training programs, each in a small file with the program
`before` and the program `after` the fix, at two sizes. Each program is recorded with `traceanalyzer.capture.profile`,
with its defaults, and timed **without** the profiler in five turns; the two programs take turns, so that a busy machine
disturbs both. Each fault runs in a separate process, with one thread for operators; faults of DDP run in two such
processes, connected by gloo.

    python -m examples.lab list
    python -m examples.lab measure clones fp64 -o run.json --traces traces/     # needs torch
    python -m examples.lab measure -o run.json --traces traces/                 # all of them; a GPU adds its own
    python -m examples.lab programs                                             # what a capture says first; 13 faults
    python -m examples.lab keep traces/ kept/                                   # traces, shortened by the tool itself
    python -m examples.lab score                                                # predictions of this version
    python -m examples.lab overhead -o costs.json                               # what the profiler costs; needs torch

## The faults"""

AFTER = """No program is run again to judge another version of the tool: `score` and this page analyze the traces in
`fixtures/lab` again and compare the predictions of this version with the earlier measurements. If no trace was kept,
the prediction that was saved with the run is used. Traces are cut to their last three steps (six for some
faults), or to as many as fit into 250 kB. For faults with two ranks, the findings of rank 0 and of the joint report
count.

| column | meaning |
|---|---|
| fired | rules of the fault that see it; other findings of medium severity or more are behind "also" |
| predicted | saving per step, at least and at most, by the rule of the fault that promises most |
| measured (range) | step with the fault less step with the fix, for as many samples: median, and range of the turns |
| inside | whether the median lies in the interval |
| width | of the interval, over its middle: 200 % where it begins at 0 |
| predicted share | the interval over the step that it is about: a step without the profiler, which the capture timed |
| measured share (range) | the saving over the step with the fault, both without the time in which the main thread \
waited for a core that other programs had (Linux counts that) |
| after the fix | rules of the fault that still speak, and others of weight: false alarms, unless the fix leaves some \
of the fault |

If other programs run on the machine, milliseconds are less reliable, because prediction and measurement come from
different moments. Shares are more reliable, but the profiler changes them, too: it makes operators longer, but not
sleeping. Time in which workers and other ranks waited for a core is not subtracted. A fix that makes the step longer is
outside of every interval, because none begins below 0.

The lab is a test of the tool, but only partly a blind one. On a CPU, rules predict which part of some time a fix
removes by factors that were chosen after the first run, some of them after the first and the second; the pages of these
rules say "in the lab". How much steps vary is not such a factor: it comes from each trace itself and from recordings of
other programs ([what if](whatif.md)). When it was added, after both runs, five bounds were changed as well: readings of
values and pauses no longer count the cost of recording twice; the lower ends rose for printing (four fifths), for
threads, for loops over small pieces (all of the time) and for copies (half); the waits for a late rank lie between the
steps with the least and the most waiting; and copying gradients counts with exchanges that a fix removes. Before, 42 of
61 medians of the second run were inside, with a median width of 64 %.

**The third run was blind**: nothing was changed between it and its predictions, which are kept with it. Four times as
many steps were recorded (`--record 24`) and seven turns timed (`--rounds 7`), because an interval also covers how much
steps vary, which is better known with more steps. After this run, two upper ends were raised whose faults were outside
in most of the three runs at the same size: casts (from 1.3 to 1.4 times) and exchanges within an accumulation (from 1
to 1.15 times). With them 47 of 58 medians are inside, by the whole traces of the third run, and 39 of 48 (81 %) of
those whose fault can be distinguished from noise.

**The fourth run was blind, too**: it was made in the same way with these rules. Of
the rows whose fault can be distinguished from noise, 40 of 50 medians are inside (80 %), and their intervals are 57 %
of their middle wide in the median. With the rows that noise hides it is 44 of 59 (75 %) and 67 %. Most of what is
outside was outside before: attention and preprocessing of small tensors save less than predicted; sleeping, exchanges
within an accumulation and fp64 a little more.

After it, bounds were changed where the second, third and fourth run agreed: loops through which no gradients pass (0.65
to 1.1 times their time), checkpointing, exchanges within an accumulation (up to 1.35 times), fp64, attention, joined
regions of compiled code (up to 1.5 times), and Python code beside readings. Captures record how much of the time of a
loader needs no core, so waiting for files, a network or a clock has a lower end above 0. No saving is promised of
copies in a row that take less than 2 % of the step.

**The fifth run was blind**, with 48 recorded steps (`--record 48 --rounds 7`). Of all 58 rows with a predicted saving
48 medians were inside (83 %), with a median width of 61 %; of those whose fault can be distinguished from noise 42 of
48 (88 %), 57 %. These are the predictions that are kept with the run. Because the width was above 60 %, two more upper
ends were lowered to what the second to fourth run had shown: tensors blown up by broadcasting (from 1.7 to 1.4 times)
and Python code beside readings (half of it). With them, the traces of the fifth run give 48 of 58 (83 %) and 59 %, and
42 of 48 (88 %) and 56 %. Its measurements were not used to choose any bound.

**The sixth run** was made with the prices of replayed, typical steps, in the same way. An attempt before it showed that
a capture lengthened recorded steps by a millisecond and more where there are many events, because it asked for the size
of the heap after each of them; this was changed first. By the rules at its start 45 of 57 medians were inside (79 %).
After it, bounds were changed that this run and those before it agree on: attention (40 to 55 % of the time outside of
products), joined regions of compiled code (up to twice the time), Adam (72 to 97 %, as measured in trainings before),
the start of workers, which recording does not make longer, two workers that wait side by side, and what a core does
that has a call for itself (24 operations per ns, 6 us per call). The predictions that are kept with the run are those
with these bounds: 50 of 57 inside (88 %), with a median width of 60 %; of those whose fault can be distinguished from
noise 46 of 51 (90 %), 55 %.

**The seventh run was blind** and made on another processor, in the same way: 47 of 58 medians were inside (81 %), with
a median width of 54 %; of those whose fault can be distinguished from noise 46 of 57 (81 %), 54 %. These are the
predictions that are kept with the run, and no bound was changed after it. Since then, steps in which workers start
anew are no typical steps, which changes the predictions of that fault alone: its traces give 48 of 58 (83 %) and 54 %.
Attention, which was inside in the sixth run, saves more there (29 and 35 % of the step; predicted were at most 28 and
19 %).

**The eighth run was the first on a GPU**, an H200, and blind: 9 of 30 medians of faults that can be told from noise
were inside (30 %), with a median width of 65 %. It showed what no CPU shows. A capture wrote a brace too many into each
trace, so that the properties of the GPU and the program were not read. Rules were silent that had been made for CPUs
(checkpointing, printing, growth beside large activations). Most of all, predictions counted what a fix takes off one
side: the waits of readings, but not the kernels and calls around them; the kernels of casts, but not the operators,
autograd and Python that make them. All of this was changed after the run, and with it the bounds that it contradicts:
beside a device, optimizers and loops count as on a CPU, copies from pinned memory are as fast as PCIe 3 at least and
PCIe 5 at most, attention in float32 may save nothing, and recording may make the rest of a step up to a fifth longer
than what goes away. With the whole traces of the run 22 of 33 are inside now (67 %), with a median width of 66 %; the
table has the kept traces, whose last three steps give wider intervals. **No later run confirms these bounds yet.**
Outside are still graph breaks (51 %, predicted at most 35), the wait for a slow rank over gloo (48 %, at least 68), and
others by little."""

BLIND = """The bounds of the faults above were made with them, so what is inside there says little of other programs.
These were written, with one fault each, by somebody who had not read the code, and captured once, with
`traceanalyzer capture --report`, by a version that was fixed before the first of them was seen. They were timed without
the profiler by their author, with and without the fault. The rows are of that version. After it, histograms
came to `work-beside-training`, and `gil-held` takes the mean wait instead of the median; no bound was moved."""

PLANTED = """## The training with planted faults

`examples/planted_faults.py` has several faults in one loop. `fixtures/synthetic/planted_faults.json.gz` is the trace
that a V100 would write of it, built event by event, and `tests/rules/test_planted_faults.py` holds each fault to its
finding:

| planted fault | on a GPU | on a CPU |
|---|---|---|
| three values read per step | `sync-item-frequent` | skipped: nothing is waited for on a CPU, no call of a runtime is \
recorded |
| a pause after each | `host-python-gap`, which names the line | skipped: no kernel that could wait |
| zeros made on the CPU and moved | `tensor-created-on-cpu` | skipped: nothing is copied to a device |
| five additions whose results are not used | none: a trace does not show whether a result is used | none |
| ten clones thrown away | `copies-materialized` | `copies-materialized` |
| two passes over a part of the batch | `redundant-passes` | `redundant-passes` |
| DataParallel on one GPU | `dataparallel` | not there: the script wraps the network on a GPU only |
| float32 without tensor cores, no autocast | `tensor-cores-unused`, or `mixed-precision-unused` where a GPU has \
bfloat16 | skipped: no kernel that would have a name |

The clean variant has none of these findings. On one GPU today's DataParallel checks every parameter and scatters the
batch; it neither replicates nor gathers, so neither does the trace.

Run on an H200 (torch 2.11), the script gave the same: every fault is found, with a step of 23 ms, of which the fixes
are said to save 11 to 17 ms; the clean variant takes 7.4 ms.

## On a machine with a GPU

The same `measure` runs all faults there, those of the GPU included, at sizes that suit it; the eighth run did so. Two
programs cost nothing there, and nothing is said of them: `device-wide-sync`, because its pieces of work are over before
the host waits, and `fp64`, because an H200 computes in double precision as fast as in single and the host bounds the
step. `kernels-one-by-one`, small kernels against a CUDA graph of them, was written for that run."""
