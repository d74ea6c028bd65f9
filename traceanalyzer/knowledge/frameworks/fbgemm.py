"""FBGEMM: operators for embeddings and quantization, used by TorchRec and other programs."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package

FBGEMM = Framework(
    id="fbgemm",
    title="FBGEMM",
    role="runtime",
    names=matching(r"^fbgemm::"),
    frames=matching(package("fbgemm_gpu")),
)
