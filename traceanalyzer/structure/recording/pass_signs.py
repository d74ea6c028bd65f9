"""What shows that operators or launches that repeat are passes of a program, not the layers of one pass."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.sums import group
from traceanalyzer.structure.unrecorded_work import waits_for_mac
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_EMBEDDINGS = frozenset({"aten::embedding", "aten::embedding_bag", "aten::_embedding_bag"})
_CLASSIFIERS = frozenset({"aten::linear", "aten::addmm", "aten::softmax", "aten::log_softmax", "aten::argmax"})
"""What the last operator of a model mostly is; a layer that ends with a product shapes its result afterwards."""
_RESULTS = _CLASSIFIERS | frozenset(
    f"aten::{name}"
    for name in (
        *(
            "slice",
            "select",
            "narrow",
            "topk",
            "sort",
            "argsort",
            "argmin",
            "max",
            "min",
            "unbind",
            "squeeze",
        ),
        *(
            "resolve_conj",
            "resolve_neg",
            "detach",
            "to",
            "_to_copy",
            "clone",
            "round",
            "tolist",
        ),
    )
)
"""What ends a pass, too: a choice among results, or what gives them to the program; none adds an axis."""
_READS = frozenset(
    {
        "aten::item",
        "aten::_local_scalar_dense",
        "aten::is_nonzero",
        "aten::equal",
        "aten::allclose",
    }
)
_DRAWS = frozenset(
    {
        "aten::randn",
        "aten::randn_like",
        "aten::rand",
        "aten::rand_like",
        "aten::randint",
        "aten::normal",
    }
)
"""What draws random numbers into a new tensor: not dropout, and no weights, which are filled."""
_CONVOLUTIONS = frozenset(f"aten::{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)) | {
    "aten::convolution",
    "aten::_convolution",
}
_PRODUCTS = _CONVOLUTIONS | frozenset(
    f"aten::{name}"
    for name in (
        "linear",
        "addmm",
        "matmul",
        "mm",
        "bmm",
        "einsum",
        "scaled_dot_product_attention",
    )
)
_MOST = 0.6
"""Least share of the time that repetitions take which only values or random numbers show (own choice)."""
_AN_ITERATION_NS = 100_000
"""Least time of one of them (own choice: less is a loop over pixels)."""


class PassPart(msgspec.Struct, frozen=True):
    """Operators, and which of them repeat."""

    rows: I64
    one: slice
    """The first repetition."""
    every: slice
    """All of them."""
    start_ns: I64
    """When each begins."""
    has_shapes: bool
    """Whether they have the same shapes, too."""


def of_threads(thread: I32, threads: Sequence[int | None]) -> Bool:
    """Which of some threads are among others, of which some may be unknown."""
    return np.isin(thread, [number for number in threads if number is not None])


def has_input_of_its_own(context: Context, rows: I64) -> bool:
    """Whether the first of some operators takes a tensor of a shape that none of the others takes."""
    host, texts = context.trace.host, context.trace.shapes
    first, *others = (Inputs(texts[code], None).shapes or () for code in host.shapes[rows].tolist())
    taken = {shape for shapes in others for shape in shapes}
    return bool(first) and bool(first[0]) and first[0] not in taken


def has_another_end(context: Context, rows: I64) -> bool:
    """Whether the last of some operators takes a tensor of fewer axes than the first, as a classifier or a choice does.

    Where no shapes were recorded: whether the first product is a convolution, and the last operator a classifier's.
    """
    host, texts = context.trace.host, context.trace.shapes
    first, last = ((Inputs(texts[host.shapes[row]], None).shapes or ((),))[0] for row in (rows[0], rows[-1]))
    if _are(context, rows[-1:], _RESULTS).any() and 0 < len(last) < len(first):
        return True
    products = rows[_are(context, rows, _PRODUCTS)]
    is_of_images = not any(texts[code] for code in host.shapes[rows].tolist()) and len(products) > 0
    is_last = is_of_images and bool(_are(context, rows[-1:], _CLASSIFIERS).any())
    return is_last and bool(_are(context, products[:1], _CONVOLUTIONS).any())


def embeds(context: Context, rows: I64) -> bool:
    """Whether some of the operators embeds tokens."""
    return bool(_are(context, rows, _EMBEDDINGS).any())


def are_reads(context: Context, rows: I64) -> Bool:
    """Which operators give the program a value, which hardly a model asks for between two of its layers."""
    return _are(context, rows, _READS)


def _are(context: Context, rows: I64, names: frozenset[str]) -> Bool:
    """Which operators have one of some names."""
    found: Bool = context.trace.names.where(names.__contains__)[context.trace.host.name[rows]]
    return found


def is_input(name: str) -> bool:
    """Whether a name is that of a copy to the device."""
    return host_activity.direction(name) == "HtoD"


def copies_in_each(context: Context, start_ns: I64, end_ns: int) -> bool:
    """Whether data is copied to the device in each pass."""
    copies = context.links.launch[context.trace.names.where(is_input)[context.trace.device.name]]
    return _in_each(context.trace.launches.start_ns[copies[copies != NO_PARENT]], start_ns, end_ns)


def waits_in_each(context: Context, threads: Sequence[int | None], start_ns: I64, end_ns: int) -> bool:
    """Whether threads wait for the device in each pass, the last of which may wait after its last operator."""
    waits, host, rows = (
        context.cached(host_activity.waits),
        context.trace.host,
        waits_for_mac(context),
    )
    of_mac = host.start_ns[rows[of_threads(host.thread[rows], threads)]]
    return _in_each(np.append(waits.start_ns[of_threads(waits.thread, threads)], of_mac), start_ns, end_ns)


def trains_in_each(context: Context, start_ns: I64, end_ns: int) -> bool:
    """Whether autograd evaluates functions in each pass, after the last operator of the last one, too.

    Their names tell them from others even where no numbers of autograd were recorded.
    """
    host = context.trace.host
    return _in_each(host.start_ns[context.trace.names.where(marks.is_backward)[host.name]], start_ns, end_ns)


def _in_each(times: I64, start_ns: I64, end_ns: int) -> bool:
    """Whether some of the times lie in each pass; a program that waits before each may end without a wait."""
    times = np.sort(times)
    until = np.append(start_ns[1:], max(end_ns, int(times.max(initial=0)) + 1))
    counts = np.searchsorted(times, until) - np.searchsorted(times, start_ns)
    is_before = bool((times < start_ns[0]).any())
    return bool((counts[:-1] > 0).all()) and (bool(counts[-1]) or is_before)


def reads_in_each(context: Context, part: PassPart) -> bool:
    """Whether the program reads a value in each repetition, of a loop that neither trains nor has a device."""
    return is_loop(context, part) and not len(context.trace.launches) and _is_in_each(context, part, _READS)


def draws_in_each(context: Context, part: PassPart) -> bool:
    """Whether random numbers are drawn in each repetition, of a loop that does not train.

    Where kinds are told by names alone, layers of a pyramid may have noise of their own.
    """
    return part.has_shapes and is_loop(context, part) and _is_in_each(context, part, _DRAWS)


def ends_each(context: Context, part: PassPart) -> bool:
    """Whether each repetition of a loop that does not train ends with a result that the next one cannot begin with."""
    return part.has_shapes and is_loop(context, part) and has_another_end(context, part.rows[part.one])


def _is_in_each(context: Context, part: PassPart, names: frozenset[str]) -> bool:
    """Whether one of some operators is called in each repetition, by no other operator."""
    host, rows = context.trace.host, part.rows[part.every]
    return _in_each(
        host.start_ns[rows[_are(context, rows, names)]],
        part.start_ns,
        int(host.end_ns[rows].max()),
    )


def is_loop(context: Context, part: PassPart) -> bool:
    """Whether repetitions are long, take most of the time, and are neither a model's layers nor a part of a training.

    A model computes products before its layers and after them, of shapes or names that its layers have not.
    """
    host, rows = context.trace.host, part.rows
    trained_ns = np.append(
        context.host.tree.start_ns[np.flatnonzero(context.cached(evaluations))],
        host.start_ns[context.kind == NodeKind.OPTIMIZER],
    )
    whole_ns = int(host.end_ns[rows].max() - host.start_ns[rows[0]])
    length_ns = int(host.end_ns[rows[part.every]].max() - part.start_ns[0])
    is_long = length_ns >= max(_MOST * whole_ns, _AN_ITERATION_NS * len(part.start_ns))
    if not is_long or (trained_ns >= host.start_ns[rows[0]]).any():
        return False
    if len(trained_ns) and not _are(context, rows[part.one], _PRODUCTS).any():
        return False  # it logs what it has trained, not a model
    around = rows[: part.every.start], rows[part.every.stop :]
    others = [_has_other_products(context, outside, rows[part.every]) for outside in around]
    is_sure = part.has_shapes and any(context.trace.shapes[code] for code in host.shapes[rows[part.one]].tolist())
    return not (all(others) if is_sure else any(others))  # by its name alone, a layer's product is also the first


def _has_other_products(context: Context, rows: I64, others: I64) -> bool:
    """Whether some operators are products of which none of the others is one of the same name and shapes."""
    host = context.trace.host
    _, kind = group(*(np.append(rows_of[rows], rows_of[others]) for rows_of in (host.name, host.shapes)))
    products = _are(context, rows, _PRODUCTS)
    return bool((~np.isin(kind[: len(rows)][products], kind[len(rows) :])).any())
