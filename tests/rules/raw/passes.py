"""Chains of kernels that each pass over the elements of one tensor, by raw events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import prod

from tests.rules.raw.case import Case, Figure
from tests.rules.raw.events import Event, common, union

_PASSES = re.compile(
    r"elementwise|reduce_kernel|CatArray|copy_kernel|softmax|layer_norm|RowwiseMoments|GammaBeta", re.I
)
_NO_PASS = re.compile(r"FillFunctor|triton|index|gather|scatter", re.I)
_REDUCES = re.compile(r"reduce_kernel|softmax|layer_norm|RowwiseMoments|GammaBeta", re.I)
_IN_PRODUCT = re.compile(r"conv|linear|addmm|\bb?mm\b|attention")


def _sizes(kernel: Event) -> list[list[int]]:
    """The shapes of the tensors that a kernel's operator reads, the largest first."""
    shapes = kernel.operators[0].args.get("Input Dims") or []
    flat = [one for each in shapes if each for one in (each if isinstance(each[0], list) else [each])]
    return sorted(flat, key=prod, reverse=True)


def elements(kernel: Event) -> int:
    """The elements of the largest tensor that its operator reads; 0 for what does not only pass over elements."""
    if not _PASSES.search(kernel.name) or _NO_PASS.search(kernel.name) or not kernel.operators:
        return 0
    operator = kernel.operators[0]
    if _IN_PRODUCT.search(operator.name):
        return 0
    shapes = operator.args.get("Input Dims") or []
    sizes = [sum(map(prod, one)) if one and isinstance(one[0], list) else prod(one) for one in shapes if one]
    return max(sizes, default=0)


def _module(kernel: Event) -> int:
    """The call of a module, or function of autograd, around a kernel."""
    return next((id(c) for c in kernel.above() if re.match(r"nn\.Module: |autograd::engine|.*Backward", c.name)), 0)


def _goes_on(before: Event, kernel: Event) -> bool:
    """Whether a kernel passes over the elements of the one before, or over what that makes of them."""
    last, size = elements(before), elements(kernel)
    if last == size:
        return True
    own, other = _sizes(before), _sizes(kernel)
    if not own or not other or max(prod(own[0]), prod(other[0])) % min(prod(own[0]), prod(other[0])):
        return False
    if prod(other[0]) > prod(own[0]):
        return any(prod(one) == prod(own[0]) for one in other)
    if _REDUCES.search(before.name):
        return True
    is_part = len(own[0]) == len(other[0]) and sum(x != y for x, y in zip(own[0], other[0], strict=True)) == 1
    return is_part and not kernel.operators[0].name.endswith("_")


def chains(work: Iterable[Event]) -> Iterator[list[Event]]:
    """Three or more kernels in a row on a stream that pass over one tensor in one call of a module, mostly at once."""
    chain: list[Event] = []
    for kernel in [*sorted(work, key=lambda one: (str(one.place), one.start)), None]:
        is_next = bool(kernel and chain and elements(kernel) and kernel.place == chain[-1].place)
        if not is_next or _module(kernel) != _module(chain[-1]) or not _goes_on(chain[-1], kernel):
            full = max(map(elements, chain), default=0)
            span = chain[-1].span[1] - chain[0].start if chain else 0
            works = 2 * sum(one.span[1] - one.start for one in chain) >= span
            if sum(elements(one) == full for one in chain) >= 3 and works:
                yield chain
            chain = []
        if kernel and elements(kernel):
            chain.append(kernel)


def elementwise_fusion_chain(case: Case) -> Iterator[Figure]:
    """Chains of kernels that pass over the same elements; some kinds of them are too short to be worth it."""
    found = list(chains(case.work))
    own = [kernel for chain in found for kernel in chain]
    listed = [chain for chain in found if common(union(one.span for one in chain), case.spans("device"))]
    yield Figure("elements", case.params["time"], case.events_per_step(own), 0.01, is_limit=True)
    yield Figure("kernels", case.params["kernels"], len(own) / len(case.typical), 0.01, is_limit=True)
    yield Figure("chains", case.params["chains"], len(found) / len(case.typical), 0.01, is_limit=True)
    yield case.stray((kernel.span for chain in listed for kernel in chain), "device")
