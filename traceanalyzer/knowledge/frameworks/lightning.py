"""Lightning (PyTorch Lightning): its Trainer owns the loop.

Its profiler marks the actions of the loop, `[pl][profile]run_training_batch`, and module calls, `[pl][module]...`.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, StepMark, matching, package, path

_STEP = "[pl][profile]run_training_batch"


def _step_mark(name: str) -> StepMark | None:
    return StepMark(None) if name == _STEP else None


LIGHTNING = Framework(
    id="lightning",
    title="Lightning",
    role="training",
    names=matching(r"^\[pl\]\[profile\]", r"^\[pl\]\[module\]"),
    frames=matching(
        package("pytorch_lightning"),
        package("lightning_fabric"),
        path("lightning", "(?:pytorch|fabric)", ""),
    ),
    step_mark=_step_mark,
)
