"""Rules hold for the device that a project has described, not for the one that its name in the trace suggests."""

from __future__ import annotations

import io

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.kernels import test_tensor_cores_unused as tensor_cores_unused
from tests.rules.operators import test_broadcast_blowup as broadcast_blowup
from traceanalyzer import readers
from traceanalyzer.config import Config
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.source import Source
from traceanalyzer.report.model import Finding


def finding(situation: TraceBuilder | str, rule: str, **gpu: float) -> Finding:
    config = Config(select=(rule,), gpu=gpu)
    if isinstance(situation, str):
        data = situation.encode()
        measured = readers.read(Source(io.BytesIO(data), "tables.txt", len(data), lambda _: None))
    else:
        measured = read_built(situation)
    (found,) = analyze(measured, config=config).findings
    return found


def most(found: Finding) -> float:
    assert found.saving is not None
    return found.saving.direct_ns_per_step[1]


def test_the_ratio_of_peaks_is_the_configured_one() -> None:
    """With fp16 only half as fast again as fp32, two thirds of the time remain."""
    known = finding(tensor_cores_unused.fires(), "tensor-cores-unused")
    slow = finding(tensor_cores_unused.fires(), "tensor-cores-unused", fp32=20, fp16=30, tf32=30)
    assert most(slow) < most(known)
    assert most(slow) / most(known) == pytest.approx((1 - 1 / 1.5) / (1 - 1 / 3), rel=0.02)


@pytest.mark.parametrize("situation", [broadcast_blowup.fires(), broadcast_blowup.fires_in_a_table()])
def test_what_remains_is_computed_at_the_configured_rate(situation: TraceBuilder | str) -> None:
    """A device that hardly computes leaves nothing to save; a table does not even name its device."""
    known = finding(situation, "broadcast-blowup")
    slow = finding(situation, "broadcast-blowup", fp32=1e-3)
    assert most(known) > 0
    assert most(slow) < most(known)


def test_a_device_that_no_data_sheet_knows_is_known_by_its_settings() -> None:
    known = finding(tensor_cores_unused.fires(), "tensor-cores-unused", name="Mine", fp32=100, fp16=130, tf32=130)  # type: ignore[arg-type]
    assert most(known) < most(finding(tensor_cores_unused.fires(), "tensor-cores-unused"))
