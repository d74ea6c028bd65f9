"""Start a new rule: its page, its code, its situations and its test, with everything that the registry test requires.

    python scripts/new_rule.py slow-thing "Something is slow"

Then: the page, the detection, the situations, the numbers of the tests; `python hatch_build.py` compiles the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "traceanalyzer" / "rules" / "pages"

PAGE = """---
order: {order}
severity: low to critical
confidence: B
tags: [gpu]
since: "{version}"
---

# {id}

{title}.

## What it detects

TODO: the events that decide, and from which value on.

## Why it matters

TODO

## What to do

TODO

## How the saving is estimated

TODO: at least, at most; why the lower end is 0, if it is.

## When it is wrong

TODO: every false alarm that you can think of; each gets a situation `trap_...`.

## Thresholds

| Key | Default | Unit | Meaning | Source |
| :-- | --: | :-- | :-- | :-- |
| `share` | 0.03 | share | time over the step | own choice, because TODO |

## References

* <https://docs.pytorch.org/docs/stable/>

## Texts

```yaml
title: {title}
summary: "TODO: {{time:ns}} of a step ({{share:share}})."
advice: "TODO: what to change, as you would tell a colleague."
not-when: "TODO: when the advice does not apply."
basis: "TODO: how the saving was estimated"
subject: "TODO: what was measured"
```
"""

RULE = '''"""Detects {id}: see pages/{id}.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels import Kernels
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("{id}")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.need("kernels", Kernels).rows if "{module}" in row.name]
    time = facts.gpu_per_step(sum(row.total_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    where = tuple(CodePlace("kernel", row.name, value=row.total_ns, unit="ns") for row in rows[:5])
    evidence = Evidence(_PAGE.text("subject")(), share, limits["share"], "share", where)
    change = TimeSaved("gpu", (time, time), _PAGE.text("basis")())
    yield Draft((evidence,), change, {{"time": time, "share": share}})


RULE = _PAGE.rule(trace=_trace)
'''

SITUATIONS = '''"""TODO: what these programs do."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish


def training(gpu: int, other: int = 1000, kernel: str = "{module}_kernel") -> TraceBuilder:
    """Steps of the kernel in question and of another one, in microseconds."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{{number}}"):
            with host.op("aten::mm"):
                host.launch(Work(kernel, gpu), stream)
                host.launch(Work("ampere_sgemm_128x64_nn", other), stream)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """TODO: a program that has the fault."""
    return training(1000)


def quiet() -> TraceBuilder:
    """TODO: a program without the fault."""
    return training(1)


def trap_another_kernel() -> TraceBuilder:
    """TODO: a program without the fault that looks as if it had it."""
    return training(1000, kernel="other_kernel")
'''

TEST = '''"""Tests of the rule `{id}`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.{module} import fires

RULE = "{id}"


def test_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_000_000, 1_000_000), rel=0.01)


def test_edge_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {{"share": share}}) == []
    assert findings(fires(), RULE, {{"share": share - 1e-9}})
'''


def files(ident: str, title: str, version: str) -> dict[str, str]:
    """Paths relative to the project, with the content of each file."""
    module = ident.replace("-", "_")
    orders = [re.findall(r"^order: (\d+)$", page.read_text("utf-8"), re.MULTILINE)[0] for page in PAGES.glob("*.md")]
    names = {"id": ident, "module": module, "title": title, "version": version, "order": max(map(int, orders)) + 10}
    return {
        f"traceanalyzer/rules/pages/{ident}.md": PAGE.format(**names),
        f"traceanalyzer/rules/{module}.py": RULE.format(**names),
        f"tests/rules/situations/{module}.py": SITUATIONS.format(**names),
        f"tests/rules/test_rule_{module}.py": TEST.format(**names),
    }


def main() -> int:
    """Write the files; an existing file is never overwritten."""
    if len(sys.argv) != 3 or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", sys.argv[1]):
        print(__doc__)
        return 2
    from traceanalyzer import __version__  # noqa: PLC0415 - after the usage

    started = files(sys.argv[1], sys.argv[2].rstrip("."), __version__)
    taken = [path for path in started if (ROOT / path).exists()]
    if taken:
        print(f"{taken[0]} exists; choose another id")
        return 2
    for path, text in started.items():
        (ROOT / path).write_text(text, "utf-8")
        print(f"wrote {path}")
    print("the order on its page is its place in the documentation; compile the page: python hatch_build.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
