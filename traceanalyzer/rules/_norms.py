"""Finds convolutions that are followed by a batch norm: in a trace by their order, in a table by their counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from traceanalyzer.analyzers.kernels.convolutions import ConvolutionNorms
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.facts import Facts, Missing

_CONVOLUTIONS = ("aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution", "aten::conv2d")
_NORMS = ("aten::batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::native_batch_norm")
_ADDITION = "aten::add_"
_BACKWARD = re.compile(r"Backward\d*$|_backward$|^autograd::engine")
_INFERS = re.compile(r"bn_fw_inf|FwdInfer", re.IGNORECASE)
_TRAINS = re.compile(r"bn_fw_tr|collect_statistics|FwdTrain", re.IGNORECASE)

_COUNTS = Text(
    "rule-norms-counts",
    "convolutions, batch norms and additions do not occur equally often, so a printed table does not show which "
    "belong together",
)


class Norms(msgspec.Struct, frozen=True):
    """Sums over the whole recording."""

    calls: int
    """Number of convolutions that a batch norm follows."""
    with_bias: int
    """Number of these that have a bias."""
    bias_ns: int
    bias_gradient_ns: int
    norm_ns: int
    is_inference: bool
    """Nothing of a backward pass was recorded, and no batch norm computes statistics."""
    bias_claims: Mapping[str, int]
    """Keys of a change's claims to ns of the recording."""
    norm_claims: Mapping[str, int]
    places: tuple[CodePlace, ...]


def recorded(facts: Facts) -> Norms:
    """Sums of a trace, by the analysis of convolutions and norms.

    Raises:
        Missing: It has no convolutions.
    """
    found = facts.need("convolution_norms", ConvolutionNorms)
    where = tuple(
        CodePlace("operator", row.name, shapes=row.input_shapes or None, value=row.bias_ns + row.norm_ns, unit="ns")
        for row in found.rows[:5]
    )
    return Norms(
        found.with_norm,
        found.with_bias,
        found.bias_ns,
        found.bias_gradient_ns,
        found.norm_ns,
        not found.has_backward and not found.trains,
        {"operator:aten::add_": found.bias_ns, "operator:aten::sum": found.bias_gradient_ns},
        {"operator:aten::batch_norm": found.norm_ns},
        where,
    )


def printed(facts: Facts) -> Norms | None:
    """Sums of a table: as many convolutions as batch norms (and as additions in place, if they have a bias).

    None if it has none of both.

    Raises:
        Missing: The counts do not decide it.
    """
    calls = {row.name: row.calls for row in facts.operators}
    device = {row.name: row.device_self_ns for row in facts.operators}
    convolutions, norms = (_first(calls, names) for names in (_CONVOLUTIONS, _NORMS))
    if not convolutions or not norms:
        return None
    if convolutions != norms:
        raise Missing(_COUNTS())
    has_bias = calls.get(_ADDITION) == convolutions
    if not has_bias and calls.get(_ADDITION, 0) > convolutions:
        raise Missing(_COUNTS())
    bias = device[_ADDITION] if has_bias else 0
    norm = sum(device.get(name, 0) for name in _NORMS)
    names = (*((_ADDITION,) if has_bias else ()), *(name for name in _NORMS if device.get(name)))
    return Norms(
        norms,
        convolutions if has_bias else 0,
        bias,
        0,
        norm,
        _is_inference(facts, calls),
        {f"operator:{_ADDITION}": bias},
        {"operator:aten::batch_norm": norm},
        tuple(CodePlace("row", name, value=device[name], unit="ns") for name in names),
    )


def _first(calls: Mapping[str, int], names: Iterable[str]) -> int:
    """Calls of the first of some operators that occurs; 0 if none does."""
    return next((calls[name] for name in names if calls.get(name)), 0)


def _is_inference(facts: Facts, operators: Iterable[str]) -> bool:
    """Whether there are kernels for inference, none for training, and no backward pass."""
    kernels = [kernel.name for kernel in facts.kernels]
    infers = any(map(_INFERS.search, kernels)) and not any(map(_TRAINS.search, kernels))
    return infers and not any(map(_BACKWARD.search, operators))


def norms(facts: Facts) -> Norms | None:
    """Sums of a trace or of a table."""
    return recorded(facts) if facts.table is None else printed(facts)
