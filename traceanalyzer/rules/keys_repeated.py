"""Keys and values are repeated in memory for each head of the queries.

What it detects:
    From shapes: copies of a tensor of five axes of which one was expanded, [batch, heads, repeats, sequence, size] or
    [batch, sequence, heads, repeats, size], whose result is the key or the value of `scaled_dot_product_attention` or a
    factor of a batched product. `repeat_kv` of transformers and `torch.repeat_interleave` make such copies. They count
    if they take a noticeable share of the GPU's time.

Why it matters:
    With grouped queries, several heads of the queries share one head of keys and values. The copies write the same keys
    and values many times, and attention reads all of them, which cancels the saving of grouped queries.

What to do:
    Give keys and values to `scaled_dot_product_attention` as they are, with `enable_gqa=True` (PyTorch 2.5 or newer),
    or use a flash attention package, which takes fewer heads of keys and values by itself.

How the saving is estimated:
    At most the time of the copies. At least half of it where torch's flash kernel already computes the attention, as
    for other copies; at least nothing elsewhere, because with a mask, on older GPUs or with large heads only slow
    attention kernels accept fewer heads of keys. It is not counted that attention then reads less.

When it is wrong:
    With `enable_gqa=True` the memory-efficient kernel does not run, so attention with a mask can fall back to separate
    kernels and become slower: see sdpa-math. Versions of torch whose `repeat_interleave` selects by index are not
    recognized, and neither are keys with a single head that are expanded without a separate axis.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._repeated_heads import COPY, repeated_heads
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST = 0.5
"""Least part of the time that is saved with a flash kernel (own choice, as for other copies)."""

_SUBJECT = Text("keys-repeated-subject", "copies that repeat keys and values, share of the GPU's time")
_BASIS = Text(
    "keys-repeated-basis",
    "at most the time of the copies; at least {least:share} of it, because another kernel of attention may be slower",
)
_BASIS_UNSURE = Text(
    "keys-repeated-basis-unsure",
    "at most the time of the copies; at least nothing, because the kernel that computes the attention now may not take "
    "fewer heads of keys than of queries",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    repeats = repeated_heads(facts)
    rows = [row for row in facts.shaped if row.name == COPY and row.shapes in repeats and row.device_self_ns]
    total = sum(row.device_self_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    rows.sort(key=lambda row: (-row.device_self_ns, row.shapes or ""))
    kind = "operator" if facts.table is None else "row"
    where = tuple(CodePlace(kind, r.name, r.shapes, facts.gpu_per_step(r.device_self_ns), "ns") for r in rows)
    claims: dict[str, float] = {}
    for row in rows:
        key = f"operator:{COPY}|{row.shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_self_ns)
    time = facts.gpu_per_step(total)
    by_flash = all(repeats[row.shapes or ""].by_flash for row in rows)
    least = _LEAST if by_flash else 0.0
    basis = _BASIS(least=least) if by_flash else _BASIS_UNSURE()
    largest = repeats[rows[0].shapes or ""]
    copies = max(1, round(sum(row.calls for row in rows) / facts.steps))
    params = {"copies": copies, "heads": largest.heads, "queries": largest.query_heads, "time": time, "share": share}
    change = TimeSaved("gpu", (least * time, time), basis, claims=claims, is_removed=True)
    yield Draft((Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),), change, params)


RULE = Rule(
    id="keys-repeated",
    title=Text("keys-repeated-title", "Keys and values are repeated in memory before attention"),
    summary=Text(
        "keys-repeated-summary",
        "{copies:count} copies per step repeat keys and values from {heads} heads to the {queries} of the queries: "
        "{time:ns} ({share:share} of the GPU's time).",
        note="heads and queries are numbers of heads of attention",
        one="{copies:count} copy per step repeats keys or values from {heads} heads to the {queries} of the queries: "
        "{time:ns} ({share:share} of the GPU's time).",
    ),
    advice=Text(
        "keys-repeated-advice",
        "Leave out the repetition and call scaled_dot_product_attention with enable_gqa=True, or use a flash attention "
        "package, which takes fewer heads of keys and values. Check afterwards that a flash kernel runs: with a mask, "
        "attention may fall back to separate kernels.",
        note="scaled_dot_product_attention and enable_gqa=True are code",
    ),
    not_when=Text(
        "keys-repeated-not-when",
        "The attention needs a mask, or heads or a GPU that the flash kernel does not support.",
    ),
    severity="info to high",
    confidence="B",
    tags=("gpu", "memory"),
    since="0.2",
    thresholds=(
        Threshold(
            "gpu_share",
            0.03,
            "share",
            "time of the copies that repeat keys and values over the time in which the GPU works",
            "own choice, as for other copies: the lower half of it is about the noise of a step",
        ),
    ),
    code="y = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
    links=("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",),
    trace=_find,
    table=_find,
    stage="preview",
)
