"""Start a new rule of a subject: its page, its detection, and its test, with all that the registry test requires.

    python scripts/new_rule.py copies slow-thing "Something is slow"

Then: the page, the detection, the situations, the numbers of the tests; `python hatch_build.py` compiles the page.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "traceanalyzer" / "rules"
PAGES = RULES / "pages"

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
| `gpu_share` | 0.03 | share | time over the time of the GPU | own choice, because TODO |

## References

* <https://docs.pytorch.org/docs/stable/>

## Texts

```yaml
title: {title}
action: "TODO: what to do, in a few words"
summary: "TODO: {{time:ns}} of a step, {{share:share}} of the time of the GPU."
advice: "TODO: what to change, as you would tell a colleague."
not-when: "TODO: when the advice does not apply."
basis: "TODO: how the saving was estimated"
subject: "TODO: what was measured"
```
"""

NEEDED = {
    "event_times": ("EventTimes",),
    "rule": ("Draft", "Drafts", "Facts", "Limits", "page"),
}
"""What a detection uses, by the module of `traceanalyzer.rules.engine`."""

DETECTION = """

_{constant} = page("{id}")


def _{module}(facts: Facts, limits: Limits) -> Drafts:
    rows = (row for row in facts.kernels if "{module}" in row.name)
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows)).longest_first
    if work.share <= limits["gpu_share"]:
        return
    evidence = _{constant}.evidence(limits, "gpu_share", work.share, work.places[:5])
    change = work.shorter((1.0, 1.0), _{constant}.text("basis")())
    yield Draft((evidence,), change, work.figures())

"""

TEST = '''"""Tests of the rule `{id}`: numbers worked out by hand.

The programs: TODO.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings

RULE = "{id}"


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


def test_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_000_000, 1_000_000), rel=0.01)
'''


def files(subject: str, ident: str, title: str, version: str) -> dict[str, str]:
    """Paths relative to the project, with the content of each file: the page and the test are new, the code grows.

    Raises:
        ValueError: There is no such subject.
    """
    module = ident.replace("-", "_")
    orders = [re.findall(r"^order: (\d+)$", page.read_text("utf-8"), re.MULTILINE)[0] for page in PAGES.glob("*.md")]
    names = {"id": ident, "module": module, "constant": module.upper(), "title": title, "version": version}
    names["order"] = str(max(map(int, orders)) + 10)
    code = _file_of(subject)
    return {
        f"traceanalyzer/rules/pages/{ident}.md": PAGE.format(**names),
        code.relative_to(ROOT).as_posix(): _extended(code.read_text("utf-8"), names),
        f"tests/rules/{subject}/test_{module}.py": TEST.format(**names),
    }


def _file_of(subject: str) -> Path:
    """The file of a subject; the shortest one, if its rules are in several."""
    single, folder = RULES / f"{subject}.py", RULES / subject
    parts = [single] if single.exists() else [*folder.glob("*.py")]
    parts = [file for file in parts if "\nRULES = (" in file.read_text("utf-8")]
    if not parts:
        raise ValueError(f"{subject} is no subject: see traceanalyzer/rules/")
    return min(parts, key=lambda file: (len(file.read_text("utf-8")), file))


def _extended(code: str, names: dict[str, str]) -> str:
    """The code of a subject with one more detection, and with the imports that it needs."""
    imported = {alias.name for node in ast.parse(code).body if isinstance(node, ast.ImportFrom) for alias in node.names}
    before, rules, last = code.rstrip().rpartition("\nRULES = (")
    detection = DETECTION.format(**names)
    entry = "    _{constant}.rule(trace=_{module}),".format(**names)
    lines = [
        f"from traceanalyzer.rules.engine.{module} import {name}"
        for module, names in NEEDED.items()
        for name in names
        if name not in imported
    ]
    head, first, tail = before.partition("\nfrom traceanalyzer")
    imports = "".join(f"\n{line}" for line in lines)
    listed = last.removesuffix(")").rstrip().removesuffix(",")
    return f"{head}{imports}{first}{tail.rstrip()}\n{detection}{rules}{listed},\n{entry}\n)\n"


def main() -> int:
    """Write the files; of those that exist, only the code of the subject changes, and only grows."""
    if len(sys.argv) != 4 or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", sys.argv[2]):
        print(__doc__)
        return 2
    from traceanalyzer import __version__  # noqa: PLC0415 - after the usage

    subject, ident, title = sys.argv[1:]
    since = ".".join(__version__.split(".")[:2])
    try:
        started = files(subject, ident, title.rstrip("."), since)
    except ValueError as error:
        print(error)
        return 2
    if (PAGES / f"{ident}.md").exists():
        print(f"there is a rule {ident}; choose another id")
        return 2
    for path, text in started.items():
        (ROOT / path).write_text(text, "utf-8")
        print(f"wrote {path}")
    print("sort the imports: make format; compile the page: python hatch_build.py; its order is its place in the list")
    return 0


if __name__ == "__main__":
    sys.exit(main())
