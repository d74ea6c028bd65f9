"""Ascend Extension for PyTorch (torch_npu): the runtime of Ascend's NPUs."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package

NPU = Framework(
    id="npu",
    title="Ascend Extension for PyTorch",
    role="runtime",
    names=matching(r"^npu::"),
    frames=matching(package("torch_npu")),
)
