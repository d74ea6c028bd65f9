"""Lightning (PyTorch Lightning): its Trainer owns the loop.

Its profiler marks what the loop does, `[pl][profile]run_training_batch`, and calls of modules, `[pl][module]...`.
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
