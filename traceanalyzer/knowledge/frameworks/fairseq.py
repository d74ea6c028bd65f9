"""fairseq: trains sequence models. Its trainer marks its operations on gradients (`trainer.py`)."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

FAIRSEQ = Framework(
    id="fairseq",
    title="fairseq",
    role="training",
    names=matching(r"^multiply-grads$", r"^reduce-grads$"),
    frames=matching(
        package("fairseq"),
        package("fairseq_cli"),
        package("fairseq2"),
        path("fairseq", r"(?:models|modules|tasks|optim|trainer\.py\()"),
    ),
)
