"""The sentences of docs/whatif.md around the tables that `whatif_errors` writes."""

from __future__ import annotations

BEFORE = """# What if

`traceanalyzer whatif` predicts what the typical step of a trace would take with some changes. It replays the
dependencies in the recording: what each host thread does, what it launches, in which order streams run, and what waits
for what. If no change is given, it ranks what would help most.

    traceanalyzer whatif trace.json.gz
    traceanalyzer whatif trace.json.gz --loader 0 --speedup "aten::convolution*=2" --no-sync aten::item
    traceanalyzer whatif trace.json.gz --gone class:elementwise --graphs -o whatif.html

In Python: `traceanalyzer.whatif(trace, loader=0, speedup={"aten::convolution*": 2})`. `traceanalyzer whatif --help`
describes the selectors. Reports show the [critical path](metrics/critical_path.md), and `analyses.replay` has the error
of the replay. The savings of findings come from the same replays ([savings](metrics/savings.md)).

*Free* is no time where something runs: kernels take none, but are launched as before, and work of the host takes none.
*Gone* is without the launches, too, and for operators without their time on the host. So a part that is free never
saves more than a free GPU, and what is gone may, where the host is what the step waits for. Changes of waits, launches
or host work save no more than the time for which the busiest stream of the GPU does nothing.

## What the figures mean

The low and the high end of a prediction are replays with and without the parts of the recording that the model does not
explain (residuals). Apart from this error of the model, the interval covers two more uncertainties. Steps that do the
same work differ ([below](#how-much-steps-differ)), which adds 2 % of the saving, combined as the root of the sum of
squares. `--loader MS` means that worker processes prepare the batches, and at the low end they cost what was measured
for [workers](#what-workers-of-a-loader-cost). If there are no free cores for them, or if the loader already has
workers, the saving at the low end is 0. The most likely value is a replay in the middle between both ends. The finding
[dataloader-bound](../traceanalyzer/rules/pages/dataloader-bound.md) uses the same figures. `--free loader` removes all
time of the loader. The interval does not cover the overhead of the profiler on the host or changing clocks. If the
error exceeds 5 % of the step, the model makes no prediction and gives bounds.

A saving is that of a program that repeats the step: the replay goes on from what each round of the steps left behind,
until rounds are equally long. So a change saves nothing of the lead that the host has over the GPU when a recording
begins or ends, and work that was launched before the recording counts once. If no step of the recording began before
the GPU had finished the one before it, none does so in the replay.

Kernels of a graph follow each other on their streams and depend on the launch of the graph. Kernels whose launch was
not recorded, because it was before the recording, follow the kernel before them if they did so within 30 us; after
longer pauses they start as long after the last event of the host as they did.

## Several ranks

    traceanalyzer whatif traces/                # what each rank costs the others
    traceanalyzer whatif traces/ --rank 2       # rank 2 like the others

The traces of the ranks of one run are replayed together, as for the [slowdown](ranks.md) in a report of ranks. With
`--rank N`, the work and the transfers of rank N take no longer than the median of all ranks at the same place of the
step; this is the most likely value, and the same number as `late_ns_per_step` of a late rank. At the other end of the
interval they take exactly the median, so the rank also loses the time by which it is faster elsewhere. Both ends are
wider by the error of the replay and the 2 % by which steps differ. Other options need the trace of one rank. In Python:
`traceanalyzer.whatif("traces/", ranks=[2])`.

## What a replay cannot know

A replay does not model kernels that slow each other down when they run at the same time, fused kernels, caches, other
processes, and control flow that depends on values. In the trace of one rank, waiting for other ranks counts as part of
its collectives.

## Errors of the replay

Written by `scripts/whatif_errors.py`, from traces of other programs, which are not part of the project. *Error* is the
difference between the replayed and the recorded typical step, *worst* the largest difference of any step; *starts* is
the difference between the starts of device events, median and 95th percentile; all are shares of the step. *Given*
counts starts that are taken from the recording because the model cannot explain them: after work from before the
recording, without a launch, after waits without a cause. *Pinned* is the share of the GPU's time in the steps that
starts when it started in the recording, whatever changes (`replay.pinned_share`). Above 5 % the model abstains, and the
trace does not count in the median and the largest error: a small error proves nothing where starts are given.

"""
EXPERIMENTS = """
## Predictions of steps that were recorded

Steps of one trace differ in their pauses: waits for the loader, synchronizations, logging. For each pair of steps
with the same calls, the host's pauses of one step (of at least 1 % of the step) are put into the other, and the replay
is compared with the recorded step. *Naive* is the other step plus the difference of the pauses.

"""
VARIATION = """
## How much steps differ

Steps of one recording that do the same work differ. *Deviation* is 1.4826 times the median distance from the median
step, divided by the mean step: an estimate of the standard deviation that single disturbed steps do not affect. The
table has recordings with three typical steps or more; several recordings of one program count as one, with their mean.
The median of these seven programs is 1.7 %, which is rounded up to 2 % for intervals of savings
(`traceanalyzer/simulation/variation.py`).

"""
WORKERS = """
## What workers of a loader cost

Workers take cores and memory bandwidth from the program. Two pairs of recordings show how much: ResNet-50 on a V100,
without workers and with four. *Loads* is the time to prepare a batch; *rest* is the step without exposed waiting for
the loader; *slowdown* is how much longer the rest gets, divided by the loading time. Each pair is predicted with the
slowdown of the other one. The means of a whole recording contain first steps and outliers, typical steps do not.
Findings use the smallest and the largest of these slowdowns (`traceanalyzer/knowledge/loaders.py`).

"""
PAIRS = """
## Changes that were recorded

For each pair of recordings, before and after a change of the program, the changes that the second recording shows are
applied to the first one as edits, and the predicted step is compared with the second one's step. *Kernels* applies only
the speedups of kernels, by kind of work. *All* also removes calls of operators that are gone, adds the host work of new
ones in their place, and changes the time outside of operators. The interval of *all* is between the replays with and
without the speedups of the remaining kernels, and with and without the change outside of operators; it is widened by 2
% of the step, by which two recordings of one program differ (root of the sum of squares). *Width* is the width of the
interval of the saving, divided by its middle.

"""
PAIRS_SAY = """
Speedups of kernels explain a change only where the GPU bounds the step. For both changes of Segment Anything, and from
batch size 2 to 16 and 128, the measured step lies outside of the interval of *kernels*: that interval covers only how
the speedups are divided among the kernels, and the error of the model. The host's work, which is on the critical path,
changed as well.

The parts of *all*, and the replays at the ends of its interval, were chosen after three trials on these same pairs of
Segment Anything. So it is a fit and not an independent test that their measured steps lie in the intervals; other pairs
may be further off.

* Segment Anything in half precision with torch.compile: kernel time falls by 669 ms, but the host is on the critical
  path for half of the step. New calls, nearly all of them one compiled region, take 400 ms of host work where 77 ms of
  many calls were before. The first recording does not show how much of this work runs while the GPU is busy, so the
  interval is wide.
* SAM 2 with another encoding of masks: its kernels hardly change; 15,000 of 26,000 calls disappear.
* The vision transformer runs as graphs and is bound by the GPU: its kernels predict the step within 1 %, in either
  direction.
* The transformer is bound by the host at small batches. From 2 to 128 samples its kernels take five times as long, and
  the step does not get longer, as predicted: the cost is fixed, not per sample. The host work of these recordings
  differs by up to 12 % by itself. At 512 samples one first call of `aten::conv1d` takes 630 ms of the host: such
  recordings cannot be compared.
"""
