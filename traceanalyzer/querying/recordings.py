"""A trace that is asked about, with what the computed tables share: each is found once, when the first of them asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from traceanalyzer.config import Config
from traceanalyzer.pipeline import analyze, context_of
from traceanalyzer.report.model import Report
from traceanalyzer.structure import module_calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import is_marked, program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.distinct import ascending, ranked
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, take_or
from traceanalyzer.trace.tree import NO_PARENT


class ModuleCalls(NamedTuple):
    """Calls of modules, those around others before them."""

    nodes: I64
    """Positions in the host tree, ascending."""
    around: I64
    """For each the node of the call around it; -1 if there is none."""
    depth: I64
    """For each the number of calls around it."""


@dataclass(frozen=True, eq=False)
class QueriedTrace:
    """One trace that is asked about, with what is computed of it once."""

    trace: Trace
    rank: int
    """Rank of the trace, or its position where the traces do not say which ranks they are."""
    config: Config | None = None
    jobs: int = 1

    @cached_property
    def context(self) -> Context:
        """What analyses of the trace share."""
        return context_of(self.trace, None, None)

    @cached_property
    def report(self) -> Report:
        """The report on the trace."""
        return analyze(self.trace, None, self.config, jobs=self.jobs)

    @cached_property
    def program(self) -> Steps:
        """All steps of the program; which of them are typical is found out for the table `steps` only."""
        context = self.context
        return context.steps if is_marked(context) else program_steps(context).every

    @cached_property
    def path_of_node(self) -> I32:
        """For each node of the host tree that is a module call the code of its path among `paths`; 0 else."""
        return self._paths[0]

    @cached_property
    def paths(self) -> list[str]:
        """Paths of module calls by code; the first is empty."""
        return self._paths[1]

    @cached_property
    def calls_of_modules(self) -> ModuleCalls:
        """The calls of modules, in the order of the host tree."""
        host, tree = self.context.host, self.context.host.tree
        nodes = np.flatnonzero(host.kind == NodeKind.MODULE)
        around = take_or(host.module, tree.parent[nodes], NO_PARENT)
        ended = np.searchsorted(ascending(tree.after[nodes]), nodes, side="right")
        return ModuleCalls(nodes, around.astype(np.int64), np.arange(len(nodes)) - ended)

    @cached_property
    def _paths(self) -> tuple[I32, list[str]]:
        host, names, found = self.context.host, self.trace.names, self.calls_of_modules
        codes, texts = np.zeros(len(host.tree), np.int64), [""]
        name = host.name[found.nodes].astype(np.int64)
        for depth in range(int(found.depth.max(initial=NO_PARENT)) + 1):
            rows = np.flatnonzero(found.depth == depth)
            outer = take_or(codes, found.around[rows], 0)
            keys, own = ranked(outer * len(names) + name[rows])
            codes[found.nodes[rows]] = own + len(texts)
            for before, last in zip(*(part.tolist() for part in np.divmod(keys, len(names))), strict=True):
                text = names[last].removeprefix("nn.Module: ")
                texts.append(f"{texts[before]}/{text}" if before else text)
        return codes.astype(np.int32), texts

    def module_of(self, nodes: I64) -> I64:
        """For each of some nodes of the host tree, the innermost module call that it belongs to; -1 for none.

        Args:
            nodes: Their positions; -1 belongs to none.
        """
        found = self.context.cached(module_calls.owners)
        evaluations, forward = module_calls.forward_nodes(self.context)
        own, evaluation = (take_or(each, nodes, NO_PARENT) for each in (found.module, found.evaluation))
        place = np.where(evaluation == NO_PARENT, NO_PARENT, np.searchsorted(evaluations, evaluation))
        of_forward = take_or(take_or(found.module, forward, NO_PARENT), place, NO_PARENT)
        return np.where(own == NO_PARENT, of_forward, own)
