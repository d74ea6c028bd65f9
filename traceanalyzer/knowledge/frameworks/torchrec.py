"""TorchRec: trains recommendation models with sharded embeddings.

Its pipeline marks the distribution of sparse features, `## start_sparse_data_dist 3 ##`, its all-to-all exchanges,
`## all2all_data:kjt splits ##`, and each wait for them, `## KJTListAwaitable wait() ##`. `## forward ##` and
`## backward ##` are marks of many programs.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

TORCHREC = Framework(
    id="torchrec",
    title="TorchRec",
    role="training",
    names=matching(
        r"^## (?:start_|wait_)?sparse_data_dist(?: [0-9]{1,18})? ##$",
        r"^## all2all_data:",
        r"^## \w{0,40}Awaitable wait\(\) ##$",
    ),
    frames=matching(package("torchrec"), path("torchrec", r"(?:distributed|modules|sparse)[/\\]")),
)
