"""DDP: PyTorch's `DistributedDataParallel`, which reduces gradients in buckets.

Frames of its file are not evidence: torch.compile checks there in every program whether the model is wrapped.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, module, path

DDP = Framework(
    id="ddp",
    title="DistributedDataParallel",
    role="parallel",
    names=matching(
        r"^DistributedDataParallel\.forward$",
        r"^torch::distributed::reducer::",
        r"^torch\.distributed\.ddp\.reducer::",
        r"^_DDPSink(?:Backward)?$",
    ),
    frames=matching(
        path("torch", "nn", "parallel", r"distributed\.py\([0-9]{1,9}\): (?:_(?:run_ddp|pre|post)_)?forward$"),
        module("DistributedDataParallel"),
    ),
)
