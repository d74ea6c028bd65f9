"""FSDP: shards parameters of wrapped modules (`FullyShardedDataParallel`), the first of PyTorch's two."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, module, path

FSDP = Framework(
    id="fsdp",
    title="FSDP",
    role="parallel",
    names=matching(r"^FullyShardedDataParallel(?:\.|::)"),
    frames=matching(
        path("torch", "distributed", "fsdp", r"(?:fully_sharded_data_parallel|_runtime_utils|_?flat_param)\.py\("),
        module("FullyShardedDataParallel"),
    ),
)
