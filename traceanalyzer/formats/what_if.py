"""Formats of a prediction: the terminal, Markdown, a page, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from traceanalyzer.formats.answers import Answer
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import clean, clipped
from traceanalyzer.report.section import Section, SectionTable
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, table
from traceanalyzer.simulation.what_if import AppliedChange, PredictedNs, WhatHelps, WhatIf

FORMATS = ("terminal", "markdown", "html", "json")

MARK = "<!-- traceanalyzer whatif"
_TOP = 20

_TITLE = Text("whatif-title", "What if: {name}", "name of a file")
_ANSWER = Text("whatif-answer", "Prediction")
_CHANGES = Text("whatif-changes", "Changes")
_HELPS = Text("whatif-helps", "What would help most")
_SHORTER = Text(
    "whatif-shorter",
    "The step would take {after:ns} instead of {before:ns}: {saving:ns} less ({share:share}).",
    "of a training step, with the changes that the user asked about",
)
_LONGER = Text(
    "whatif-longer",
    "The step would take {after:ns} instead of {before:ns}: {more:ns} more.",
    "of a training step, with the changes that the user asked about",
)
_SAME = Text("whatif-same", "The step would take as long as before: {before:ns}.")
_INTERVAL = Text("whatif-interval", "The saving is between {low:ns} and {high:ns}.")
_WORKERS = Text(
    "whatif-workers",
    "The interval includes what worker processes of the loader may cost: cores, memory bandwidth, and the time to "
    "fetch a batch.",
)
_BOUND = Text(
    "whatif-bound",
    "The step takes {before:ns}; with the changes it would take between {low:ns} and {high:ns}.",
    "of a training step, where nothing more exact can be said",
)
_NEXT = {
    "loader": Text("whatif-next-loader", "Then most of the step is waiting for the DataLoader."),
    "host": Text("whatif-next-host", "Then the CPU takes most of the step."),
    "gpu": Text("whatif-next-gpu", "Then the GPU takes most of the step."),
    "communication": Text("whatif-next-communication", "Then communication takes most of the step."),
}
_ERROR = Text(
    "whatif-error",
    "A replay without changes differs from the recorded step by {error:share}.",
    "the replay of the dependencies in a trace; error is a share of the step",
)
_ABSTAINS = Text(
    "whatif-abstains",
    "A replay without changes differs from the recorded step by {error:share}, too much for a prediction: these are "
    "bounds.",
    "the replay of the dependencies in a trace; error is a share of the step",
)
_PINNED = Text(
    "whatif-pinned",
    "The trace does not show what {share:share} of the GPU's work waited for, so these kernels start when they "
    "started in it: too much for a prediction. These are bounds.",
    "the replay of the dependencies in a trace; share is one of the time of kernels",
)
_QUEUES = Text(
    "whatif-period",
    "If the recorded steps went on, each would take {share:share} more or less than recorded, because work queues up "
    "or a queue runs empty: too much for a prediction. These are bounds.",
    "the replay of the dependencies in a trace; share is one of the step",
)
_START_UP = Text(
    "whatif-start-up",
    "This recording is mostly start-up: for {time:rounded_ns} code is loaded or compiled, or memory is allocated, "
    "which happens only once. What is saved of it is saved once, not in each step.",
)
_OTHER_DEVICES = Text(
    "whatif-other-devices",
    "Devices without recorded kernels are not part of the model; waiting for them counts as time of the CPU, which a "
    "faster CPU would not save.",
)
_NOW = Text("whatif-now", "The step takes {before:ns}.")
_KINDS = {
    "loader": Text(
        "whatif-kind-loader", "each wait for the DataLoader takes at most {wait:ns}", "a change that somebody thinks of"
    ),
    "no-wait": Text("whatif-kind-no-wait", "no wait for the DataLoader", "a change that somebody thinks of"),
    "speedup": Text("whatif-kind-speedup", "{selector} {factor} times as fast", "a change that somebody thinks of"),
    "free": Text("whatif-kind-free", "{selector} takes no time", "a change that somebody thinks of"),
    "gone": Text("whatif-kind-gone", "{selector} is gone", "a change that somebody thinks of"),
    "no-sync": Text(
        "whatif-kind-no-sync", "{selector} no longer waits", "selector names calls that wait for the device"
    ),
    "bandwidth": Text("whatif-kind-bandwidth", "communication {factor} times as fast"),
    "overlap": Text("whatif-kind-overlap", "communication overlaps with computation"),
    "graphs": Text("whatif-kind-graphs", "graphs launch all kernels of a step, one after each wait", "CUDA graphs"),
    "rank": Text(
        "whatif-kind-rank",
        "rank {selector} takes no longer than the median of all ranks",
        "a process of a distributed training; selector is its number",
    ),
}
_FOUND = {
    "loader": Text("whatif-found-loader", "DataLoader"),
    "gpu": Text("whatif-found-gpu", "GPU"),
    "host": Text("whatif-found-host", "CPU"),
    "communication": Text("whatif-found-communication", "communication"),
    "operator": Text("whatif-found-operator", "operators"),
    "kernel": Text("whatif-found-kernel", "kernels"),
    "class": Text("whatif-found-class", "a class of kernels"),
    "owner": Text("whatif-found-owner", "owners of CPU time"),
    "synchronization": Text("whatif-found-synchronization", "calls that wait"),
}
_PARTS = {
    "resource": Text(
        "whatif-part-resource", "resource", "a part of a step is a resource of the machine, such as a GPU"
    ),
    "operator": Text("whatif-part-operator", "operator", "a part of a step is all calls of an operator of PyTorch"),
    "class": Text("whatif-part-class", "kernels", "a part of a step is all kernels of one class"),
    "owner": Text("whatif-part-owner", "owner", "a part of a step is the host time of a function or module, its owner"),
}
_RANGE = Text("whatif-range", "{low:ns} to {high:ns}", "an interval of times")
_ONCE = Text("whatif-once-time", "{once:ns}", "a time")
_COUNT = Text("whatif-number", "{count:count}", "a number of events")
_CHANGE = Column(Text("whatif-change", "Change"), "", lambda edit: _change(edit), is_name=True)  # noqa: PLW0108
_EVENTS = (
    Column(Text("whatif-found", "Of"), "", lambda edit: _FOUND[edit.found]()),
    Column(Text("whatif-events", "Device events"), "", lambda edit: _count(edit.device_events), if_any=bool),
    Column(columns.CALLS.title, "", lambda edit: _count(edit.calls), if_any=bool),
)
_INTERVAL_FREE = Text("whatif-free-range", "Interval")
_HELPS_COLUMNS = (
    Column(Text("whatif-what", "What"), "", lambda row: _part(row.selector), is_name=True),
    Column(
        Text("whatif-part", "Kind", "what a part of a step is: a word such as operator"),
        "",
        lambda row: _PARTS[row.kind](),
    ),
    Column(Text("whatif-saves-free", "Saves if free"), "ns", lambda row: row.free_ns[1]),
    Column(Text("whatif-selector", "Selector", "what names a part of a step"), "", "selector", is_extra=True),
    Column(_INTERVAL_FREE, "", lambda row: _range(row.free_ns), is_extra=True),
    Column(Text("whatif-saves-half", "If twice as fast"), "ns", lambda row: row.half_ns and row.half_ns[1]),
    Column(
        Text("whatif-saves-gone", "If gone", "time by which a step gets shorter without some work and its launches"),
        "ns",
        lambda row: row.gone_ns and row.gone_ns[1],
    ),
    Column(
        Text("whatif-once", "Once", "time of work that is in none of the typical steps, such as start-up"),
        "",
        lambda row: "" if row.once_ns is None else _ONCE(once=row.once_ns),
        if_any=bool,
    ),
    Column(Text("whatif-half-range", "Interval, twice as fast"), "", lambda row: _range(row.half_ns), is_extra=True),
    Column(Text("whatif-gone-range", "Interval, gone"), "", lambda row: _range(row.gone_ns), is_extra=True),
)
_OPTIONS = (
    Column(Text("whatif-option", "Option", "of the command line"), "", "selector", is_name=True),
    Column(Text("whatif-saves", "Saves", "time by which a step gets shorter"), "ns", lambda row: row.free_ns[1]),
    Column(_INTERVAL_FREE, "", lambda row: _range(row.free_ns)),
)
_RANKS = Text(
    "whatif-ranks",
    "Each rank alone, if its work and transfers took no longer than the median of all ranks.",
    "below a heading, above a table of ranks of a distributed training",
)


def answer(prediction: WhatIf, language: Language = ENGLISH) -> Answer:
    """The prediction in words of a language, to be rendered in one of `FORMATS`."""
    name = clean(prediction.source.name)

    def header(width: int) -> str:
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        return language.text(_TITLE, name=terminal.fit(name, width - 12))

    def shown(rows: int) -> Iterator[Section]:
        return sections(prediction, rows)

    title = language.text(_TITLE, name=clipped(name, 200))
    return Answer(prediction, "prediction", FORMATS, prediction.generator, MARK, title, header, shown, _TOP, language)


def sections(prediction: WhatIf, top: int) -> Iterator[Section]:
    """Build the sections of a prediction."""
    yield Section("prediction", _ANSWER, messages=tuple(_messages(prediction)), is_essential=True)
    if prediction.edits:
        of_ranks = prediction.edits[0].kind == "rank"  # a rank is all its work
        changes = table("changes", (_CHANGE,) if of_ranks else (_CHANGE, *_EVENTS), prediction.edits)
        yield Section("changes", _CHANGES, tables=(changes,))
    if prediction.helps:
        says = (_RANKS(),) if prediction.helps[0].kind == "rank" else ()
        yield Section("helps", _HELPS, messages=says, tables=tuple(_helps(prediction.helps, top)))


def _helps(helps: Sequence[WhatHelps], top: int) -> Iterator[SectionTable]:
    """What takes time, and could be free or twice as fast; and options, which are changes that are made or not."""
    things = [row for row in helps if row.half_ns is not None]
    options = [row for row in helps if row.half_ns is None]
    if things:
        yield table("helps", _HELPS_COLUMNS, things, top)
    if options:
        yield table("options", _OPTIONS, options, top)


def _messages(prediction: WhatIf) -> Iterator[Message]:
    low, point, high = prediction.saving_ns
    before = prediction.step_ns
    if not prediction.edits:
        yield _NOW(before=before)
    elif point is None:
        yield _BOUND(before=before, low=prediction.predicted_ns[0], high=prediction.predicted_ns[2])
    else:
        if round(point) > 0:
            yield _SHORTER(after=before - point, before=before, saving=point, share=point / before)
        elif round(point) < 0:
            yield _LONGER(after=before - point, before=before, more=-point)
        else:
            yield _SAME(before=before)
        if round(low) != round(high):
            yield _INTERVAL(low=low, high=high)
            if any(edit.kind == "loader" for edit in prediction.edits) and not any(
                map(_frees_loader, prediction.edits)
            ):
                yield _WORKERS()
    if prediction.edits and prediction.next_bottleneck:
        yield _NEXT[prediction.next_bottleneck]()
    yield from _caveats(prediction)


def _caveats(prediction: WhatIf) -> Iterator[Message]:
    """How far the replay is to be believed, and what it does not know."""
    replay, error = prediction.replay, prediction.replay.error_share
    match replay.doubt:
        case None | "error":
            yield (_ABSTAINS if replay.abstained else _ERROR)(error=error)
        case "pinned":
            yield _PINNED(share=replay.pinned_share)
        case "period":
            yield _QUEUES(share=replay.period_share)
    if prediction.startup_ns is not None:
        yield _START_UP(time=prediction.startup_ns)
    if prediction.other_devices:
        yield _OTHER_DEVICES()


def _frees_loader(edit: AppliedChange) -> bool:
    """Whether nothing is left of the loader, whatever workers cost."""
    return edit.found == "loader" and edit.kind != "loader" and not edit.factor


def _without_kind(selector: str) -> str:
    """The name that a selector holds; a column beside it says what it names."""
    kind, _, name = selector.partition(":")
    return name if kind in _FOUND and name else selector


def _change(edit: AppliedChange) -> Message:
    """The text of a change; work without any time is called free for every kind of request."""
    if edit.kind == "bandwidth" and not edit.factor:
        return _KINDS["free"](selector=_FOUND[edit.found]())
    kind = "free" if edit.kind == "speedup" and not edit.factor else edit.kind
    kind = "no-wait" if edit.kind == "loader" and not round(edit.wait_ns or 0) else kind
    params = {"selector": clean(_without_kind(edit.selector)), "factor": f"{edit.factor or 0:g}", "wait": edit.wait_ns}
    template = _KINDS[kind]
    return template(**{key: value for key, value in params.items() if f"{{{key}" in template.english})


def _count(number: int | None) -> Message | str:
    """A number of events, or nothing for a change that is not of such events."""
    return "" if number is None else _COUNT(count=number)


def _part(selector: str) -> Message | str:
    """A resource in words, or the name of what else takes time."""
    return _FOUND[selector]() if selector in _FOUND else _without_kind(selector)


def _range(interval: PredictedNs | None) -> Message | None:
    return None if interval is None else _RANGE(low=interval[0], high=interval[2])
