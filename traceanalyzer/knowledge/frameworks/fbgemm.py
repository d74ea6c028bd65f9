"""FBGEMM: operators of embeddings and quantization, below TorchRec and in programs without it."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package

FBGEMM = Framework(
    id="fbgemm",
    title="FBGEMM",
    role="runtime",
    names=matching(r"^fbgemm::"),
    frames=matching(package("fbgemm_gpu")),
)
