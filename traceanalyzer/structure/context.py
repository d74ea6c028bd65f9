"""Data that several analyzers need, computed once and on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import msgspec
import numpy as np

from traceanalyzer.knowledge import gpus
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.structure import host_tree
from traceanalyzer.structure.steps import Steps, find, infer
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, U8, Bool

T = TypeVar("T")
P = ParamSpec("P")


class Repetitions(msgspec.Struct, frozen=True):
    """How often each call counts whose work graphs replayed; shape of each array: (rows of the table,)."""

    host: I64
    frames: I64


class Context:
    """A trace with its call trees, links, steps, choice of steps, and the peak rates of the device."""

    def __init__(
        self,
        trace: Trace,
        chosen: Steps | None = None,
        gpu: Gpu | None = None,
        compile_logs: tuple[CompileLog, ...] = (),
        repetitions: Repetitions | None = None,
    ) -> None:
        self.trace = trace
        self.compile_logs = compile_logs
        self.gpu = gpu or gpus.only(trace.info.devices)
        self._chosen = chosen
        self._repetitions = repetitions
        self._shared: dict[tuple[Hashable, ...], Any] = {}
        """Results that do not depend on what is in scope, for this context and all that `only` makes of it."""
        self._of_scope: dict[tuple[Hashable, ...], Any] = {}
        """Results that depend on what is in scope."""
        self._asked_scope = False
        """Whether what is being computed has asked what is in scope."""
        self._counted: Steps | None = None

    def only(self, steps: Steps) -> Context:
        """The same trace, of which only what starts in some steps is in scope; they do not overlap.

        What does not depend on the scope is computed once for both.
        """
        _ = self.host, self.links, self.steps, self.inferred_steps
        part = copy(self)
        part._of_scope, part._counted = {}, steps
        return part

    def cached(self, compute: Callable[Concatenate[Context, ...], T], *arguments: Hashable) -> T:
        """The result of a function of this context and further arguments, computed at the first request only.

        Whether a result depends on the scope is observed while it is computed. No declaration of a function could say
        it: the sets of events of `structure.events` depend on it or not with the finder that is an argument.
        """
        key = (compute, *arguments)
        if key in self._shared:
            return cast("T", self._shared[key])
        if key not in self._of_scope:
            asked, self._asked_scope = self._asked_scope, False
            result = compute(self, *arguments)
            (self._of_scope if self._asked_scope else self._shared)[key] = result
            self._asked_scope |= asked
            return result
        self._asked_scope = True
        return cast("T", self._of_scope[key])

    def release(self, *computed: Callable[..., Any]) -> None:
        """Free results of `cached` that take much memory and are no longer needed."""
        for known in (self._shared, self._of_scope):
            for key in [key for key in known if key[0] in computed]:
                del known[key]

    def in_scope(self, start_ns: I64) -> Bool:
        """Which events count in sums: those that start in the chosen steps, or all."""
        self._asked_scope = True
        if self._counted is not None:
            return self._counted.contain(start_ns)
        if self.scope is None:
            return np.ones(len(start_ns), np.bool_)
        return (start_ns >= self.scope[0]) & (start_ns < self.scope[1])

    def called_in_scope(self, start_ns: I64) -> Bool:
        """Which calls of the host count: as `in_scope`, or those that made the chosen steps if the host runs ahead."""
        if self._counted is None:
            return self.in_scope(start_ns)
        self._asked_scope = True
        return self._counted.of_host.contain(start_ns)

    def calls_of(self, nodes: I64) -> I64:
        """How many calls each node of the host tree stands for: one, except for calls that graphs replayed."""
        if self._repetitions is None:
            return np.ones(len(nodes), np.int64)
        row, is_module = self.host.row[nodes], self.host.kind[nodes] == host_tree.NodeKind.MODULE
        calls = np.empty(len(nodes), np.int64)
        calls[is_module] = self._repetitions.frames[row[is_module]]
        calls[~is_module] = self._repetitions.host[row[~is_module]]
        return calls

    def calls_of_frames(self, rows: I64) -> I64:
        """How many calls each row of the table of frames stands for."""
        return np.ones(len(rows), np.int64) if self._repetitions is None else self._repetitions.frames[rows]

    @property
    def scope(self) -> tuple[int, int] | None:
        """The time of the chosen steps; None without a choice."""
        return self._chosen.window if self._chosen else None

    @cached_property
    def kind(self) -> U8:
        """The kind of each row of the host table: operator, step, loader, and so on."""
        return host_tree.kinds(self.trace)

    @cached_property
    def host(self) -> host_tree.HostTree:
        """Operators, annotations and modules of the host threads as call trees."""
        return host_tree.build(self.trace, self.kind)

    @cached_property
    def links(self) -> host_tree.Links:
        """Which launch started each device event, and which host node made each launch."""
        return host_tree.link(self.trace, self.host)

    @cached_property
    def steps(self) -> Steps:
        """The steps of the breakdown: those that were chosen, else all."""
        return self._chosen or find(self.trace, self.kind, self.links)

    @cached_property
    def inferred_steps(self) -> Steps | None:
        """Steps inferred from annotations, if the profiler marked none."""
        return None if self.steps.found_by == "ProfilerStep" else infer(self.trace, self.kind, self.links)


def cached(compute: Callable[Concatenate[Context, P], T]) -> Callable[Concatenate[Context, P], T]:
    """Makes a function of a context compute each result at the first request only; arguments are by position."""

    @wraps(compute)
    def result(context: Context, /, *arguments: P.args, **_: P.kwargs) -> T:
        return context.cached(compute, *arguments)

    return result


@cached
def device_events_in_scope(context: Context) -> Bool:
    """Which device events count in sums, as `Context.in_scope` says of their starts."""
    counted = context.in_scope(context.trace.device.start_ns)
    counted.setflags(write=False)  # many analyses use it
    return counted
