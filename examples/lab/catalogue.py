"""All faults of the lab, with the fix and the rules that should detect each. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

NOTHING: MappingProxyType[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Fault:
    """One fault. Its two programs, `before` and `after`, are in the module of the same name in `faults/`."""

    name: str
    fault: str
    """What is wrong; this text is shown in docs/lab.md."""
    fix: str
    """What the program `after` does instead."""
    rules: tuple[str, ...] = ()
    """Ids of rules, any of which is a right answer. Empty if no rule is about the fault."""
    untold: str = ""
    """Why a trace cannot show the fault, if no rule is about it."""
    needs_gpu: bool = False
    """Whether the fault does not exist, or costs nothing, on a CPU."""
    is_risk: bool = False
    """Whether the fault costs memory instead of time, so that no saving is predicted."""
    ranks: int = 1
    """Number of processes that train together."""
    kept_steps: int = 3
    """Steps that are kept of each trace, if they are small enough: as many as are needed to show the fault."""
    is_new: bool = False
    """Whether no run of the lab has it yet; docs/capture.md has what was measured apart."""
    is_slow: bool = False
    """Whether steps take so long that fewer of them are timed."""
    recording: MappingProxyType[str, Any] = field(default_factory=lambda: NOTHING)
    """Options of `traceanalyzer.capture.profile` that differ from the defaults."""

    @property
    def module(self) -> str:
        """Name of the module with the two programs."""
        return f"examples.lab.faults.{self.name.replace('-', '_')}"


_LOADER = ("dataloader-bound", "dataloader-single-process")

FAULTS: tuple[Fault, ...] = (
    Fault("slow-dataset-compute", "each sample takes Python work on the main process", "two workers", _LOADER),
    Fault(
        "slow-dataset-sleep",
        "each sample waits for a millisecond, as for a network",
        "workers that wait side by side",
        _LOADER,
    ),
    Fault("slow-dataset-io", "each sample is a compressed file of its own", "two workers", _LOADER),
    Fault(
        "slow-batch",
        "one batch in four takes long",
        "a worker that fetches ahead",
        ("dataloader-stalls", "dataloader-bound"),
        kept_steps=6,
    ),
    Fault("no-workers", "samples are transformed on the main process", "one worker", _LOADER),
    Fault(
        "too-many-workers",
        "eight workers for a dataset that costs nothing",
        "no workers",
        ("dataloader-too-many-workers",),
        kept_steps=6,
    ),
    Fault(
        "workers-restarted",
        "workers start anew in each epoch of four steps",
        "`persistent_workers=True`",
        ("dataloader-workers-restarted", "dataloader-stalls", "dataloader-bound"),
        kept_steps=6,
    ),
    Fault(
        "preprocessing-in-step",
        "images are normalized one by one within the step",
        "the batch is normalized",
        ("loop-vectorizable", "preprocessing-in-step"),
    ),
    Fault(
        "optimizer-single-tensor",
        "AdamW with `foreach=False`",
        "AdamW with `fused=True`",
        ("optimizer-not-fused",),
    ),
    Fault(
        "zero-grad-fill",
        "`zero_grad(set_to_none=False)`",
        "`zero_grad()`",
        ("zero-grad-fill",),
    ),
    Fault(
        "redundant-forward",
        "a forward pass for a logged loss that the training pass has anyway",
        "that loss is logged",
        ("redundant-passes",),
    ),
    Fault(
        "redundant-passes",
        "two passes over half of the batch, whose gradients are cleared",
        "they are left out",
        ("redundant-passes",),
    ),
    Fault(
        "autograd-in-inference",
        "inference records a graph for autograd",
        "`torch.inference_mode()`",
        ("autograd-in-inference",),
    ),
    Fault("clones", "ten copies of each batch that nobody uses", "they are left out", ("copies-materialized",)),
    Fault(
        "repeat-and-contiguous",
        "a bias is repeated, and each order of axes is written to memory",
        "broadcasting and views",
        ("copies-materialized",),
    ),
    Fault(
        "loop-over-elements",
        "a loop in Python scales rows of pixels one by one",
        "one multiplication",
        ("loop-vectorizable", "launch-bound-small-kernels"),
    ),
    Fault(
        "dtype-round-trips",
        "activations go to bfloat16 and back after every layer",
        "they stay in float32",
        ("dtype-cast-churn",),
    ),
    Fault("fp64", "the network computes in float64", "float32", ("fp64-on-gpu",)),
    Fault(
        "tiny-batch",
        "batches of two samples (savings are those of as many samples)",
        "batches of 16 or 64",
        untold="none: one batch size does not show what part of the time grows with it",
    ),
    Fault(
        "item-logging",
        "the norm of each gradient is read with `.item()` in every step",
        "one norm over all gradients, read every 50 steps",
        ("sync-item-frequent",),
    ),
    Fault(
        "metrics-in-python",
        "hits are counted sample by sample in Python",
        "they are counted by two operators",
        ("sync-item-frequent",),
    ),
    Fault(
        "sleep-and-logging",
        "each step sleeps, formats tensors and flushes a log file",
        "logging every 50 steps",
        ("host-waits-or-logs",),
    ),
    Fault("graph-breaks", "a graph break after each layer of a compiled network", "no breaks", ("graph-breaks",)),
    Fault(
        "recompilation",
        "a network compiled for fixed shapes gets another shape in each step",
        "`dynamic=True`",
        ("compile-or-load-in-step",),
        is_slow=True,
    ),
    Fault(
        "oversubscribed-threads",
        "16 threads for each operator",
        "as many as the lab uses elsewhere: one",
        ("threads-oversubscribed",),
    ),
    Fault("anomaly-mode", "autograd's anomaly mode is left on", "it is off", ("anomaly-mode",)),
    Fault(
        "ddp-small-buckets",
        "DDP over gloo with a bucket for nearly each gradient",
        "buckets of the default size",
        ("collectives-many", "comm-inefficient"),
        ranks=2,
        kept_steps=6,
    ),
    Fault(
        "ddp-buffers",
        "DDP sends the buffers of all batch norms in each step",
        "`broadcast_buffers=False`",
        ("ddp-buffer-broadcast",),
        ranks=2,
        kept_steps=6,
    ),
    Fault(
        "ddp-slow-rank",
        "the other rank sleeps in each step",
        "it does not",
        ("comm-straggler", "comm-exposed"),
        ranks=2,
        kept_steps=6,
    ),
    Fault(
        "ddp-sync-in-accumulation",
        "gradients are averaged after each of four passes of an accumulation",
        "`no_sync()` in all but the last",
        ("ddp-sync-in-accumulation",),
        ranks=2,
        kept_steps=6,
    ),
    Fault(
        "attention-unfused",
        "attention is written out: scores, softmax, product",
        "`scaled_dot_product_attention`",
        ("attention-unfused",),
    ),
    Fault(
        "padding",
        "sequences are padded to the longest there could be",
        "to the longest of the batch",
        untold="none: padding is a value like any other, and a trace has no values",
    ),
    Fault(
        "convolution-layout",
        "activations change between channels-last and contiguous around each convolution",
        "channels-last throughout",
        ("conv-layout-transposes", "copies-materialized"),
    ),
    Fault(
        "broadcast-blow-up",
        "a matrix product is written as a broadcast product and a sum",
        "`x @ weight`",
        ("broadcast-blowup",),
    ),
    Fault(
        "bias-before-norm",
        "convolutions before batch norm have a bias",
        "`bias=False`",
        ("conv-bias-before-batchnorm",),
    ),
    Fault(
        "checkpointing",
        "activations are computed again although memory is free",
        "they are kept",
        ("activations-recomputed",),
    ),
    Fault(
        "checkpoint-each-step",
        "the state is written to a file in each step",
        "it is written every 50 steps",
        ("work-beside-training",),
        is_new=True,
    ),
    Fault(
        "validation-each-step",
        "the same validation runs in each step",
        "it runs every 50 steps",
        ("work-beside-training",),
        is_new=True,
    ),
    Fault(
        "matrix-rank-each-step",
        "the ranks of all matrices are computed in each step",
        "they are computed every 50 steps",
        ("work-beside-training",),
        is_new=True,
    ),
    Fault(
        "copied-model",
        "a moving average of parameters takes a deep copy of the model in each step",
        "it takes the parameters themselves",
        ("work-beside-training",),
        is_new=True,
    ),
    Fault(
        "garbage-each-step",
        "`gc.collect()` in each step",
        "every 50 steps",
        ("work-beside-training",),
        is_new=True,
    ),
    Fault(
        "busy-thread",
        "a thread computes in Python beside the training",
        "there is no such thread",
        ("gil-held",),
        is_new=True,
    ),
    Fault(
        "slow-sample-function",
        "each sample is computed by a loop in Python over its pixels",
        "one operation on the whole image",
        ("dataloader-bound",),
        is_new=True,
    ),
    Fault(
        "loader-begun-again",
        "each step begins a loader anew, with `next(iter(loader))`",
        "one loop over the loader",
        ("dataloader-workers-restarted", "dataloader-bound"),
        is_new=True,
    ),
    Fault(
        "tokens-by-regex",
        "texts are split by regular expressions within the step",
        "they are split before",
        ("host-waits-or-logs",),
        is_new=True,
    ),
    Fault(
        "process-each-step",
        "each step starts a process and waits for it",
        "every 50 steps",
        ("host-waits-or-logs",),
        is_new=True,
    ),
    Fault(
        "tensors-from-lists",
        "each batch is made of lists of floats",
        "it shares the memory of an array",
        ("host-waits-or-logs",),
        is_new=True,
    ),
    Fault(
        "mask-in-python",
        "a mask is built entry by entry in Python",
        "by two operators",
        ("host-waits-or-logs",),
        is_new=True,
    ),
    Fault(
        "synced-log",
        "each step writes a file and forces it to disk",
        "every 50 steps",
        ("host-waits-or-logs",),
        is_new=True,
    ),
    Fault(
        "histograms-each-step",
        "histograms of all parameters and gradients in each step",
        "every 50 steps",
        ("sync-item-frequent", "work-beside-training", "cpu-operator-dominates"),
        is_new=True,
    ),
    Fault(
        "dense-embedding-gradient",
        "a batch uses few rows of a large embedding, whose gradient is dense",
        "`sparse=True`",
        ("embedding-gradient-dense",),
        is_new=True,
    ),
    Fault(
        "one-hot-product",
        "rows of a matrix are chosen by a product with one-hot vectors",
        "an embedding",
        ("one-hot-product",),
        is_new=True,
    ),
    Fault(
        "cell-over-time",
        "an `LSTMCell` is called for each point in time",
        "an `LSTM` is called once",
        ("recurrent-cell-loop",),
        is_new=True,
    ),
    Fault(
        "growing-graph",
        "a moving average is not detached, so the graph grows from step to step",
        "it is detached",
        ("graph-grows",),
        kept_steps=6,
        is_new=True,
    ),
    Fault(
        "pageable-copies",
        "batches are copied to the GPU from pageable memory",
        "pinned memory and `non_blocking=True`",
        ("h2d-pageable", "h2d-blocking"),
        needs_gpu=True,
    ),
    Fault(
        "tensors-from-cpu",
        "a mask is made on the CPU and moved in each step",
        "it is made on the GPU",
        ("tensor-created-on-cpu",),
        needs_gpu=True,
    ),
    Fault(
        "float32-products",
        "large products in float32 without tensor cores",
        "autocast to bfloat16",
        ("mixed-precision-unused", "tensor-cores-unused", "tf32-disabled"),
        needs_gpu=True,
    ),
    Fault("data-parallel", "DataParallel on one GPU", "the network itself", ("dataparallel",), needs_gpu=True),
    Fault(
        "growing-memory",
        "every batch is kept on the GPU",
        "only its mean",
        ("memory-growth",),
        needs_gpu=True,
        is_risk=True,
        recording=MappingProxyType({"profile_memory": True}),
    ),
    Fault(
        "device-wide-sync",
        "the whole GPU is waited for five times in a step",
        "it is not waited for",
        ("sync-device-wide",),
        needs_gpu=True,
    ),
    Fault(
        "kernels-one-by-one",
        "small kernels of inference are launched one by one",
        "they are captured as a CUDA graph",
        ("launch-bound-small-kernels",),
        needs_gpu=True,
    ),
)

BY_NAME = {fault.name: fault for fault in FAULTS}
