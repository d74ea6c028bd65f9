"""FSDP2: shards parameters in place (`fully_shard`), the second of PyTorch's two."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

FSDP2 = Framework(
    id="fsdp2",
    title="FSDP2",
    role="parallel",
    names=matching(r"^FSDP::", r"^fsdp::"),
    frames=matching(
        path("torch", "distributed", "fsdp", r"_fully_shard[/\\]"),
        path("torch", "distributed", "_composable", r"fsdp[/\\]"),
    ),
)
