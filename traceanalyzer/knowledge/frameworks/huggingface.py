"""Hugging Face: models, pipelines and `generate` of Transformers, its Trainer, and Accelerate.

It supports training and inference, so its role does not show which one a program does. Frames of `transformers/utils`
that only look for installed packages occur in programs that do not use it otherwise.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

_LOOKS_AROUND = r"(?!utils[/\\](?:import_utils|versions|logging|hub)\.py|dependency_versions)"

HUGGINGFACE = Framework(
    id="huggingface",
    title="Hugging Face",
    role="inference",
    frames=matching(
        package("transformers") + _LOOKS_AROUND,
        path("src", "transformers", r"(?:models|generation|pipelines)[/\\]"),
        package("accelerate"),
        package("trl"),
        package("peft"),
    ),
)
