"""Labels of the page, because templates and the script contain no texts."""

from __future__ import annotations

from traceanalyzer.formats import cards
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.sections import modules

_LABELS = {
    "skip": Text("html-skip", "Skip to the report"),
    "contents": Text("html-contents", "Contents"),
    "summary": Text("html-summary", "Summary"),
    "theme": Text("html-theme", "Theme"),
    "step": Text("html-step", "One step, on average"),
    "utilization": Text("html-utilization", "GPU utilization"),
    "resources": Text("html-resources", "Resources per step"),
    "resources_overlap": Text("html-resources-overlap", "They overlap, so they do not sum to the step."),
    "best": Text("html-best", "Most valuable findings"),
    "no_saving": Text("html-no-saving", "No time saving estimated"),
    "not_yet": Text("html-not-yet", "No saving yet", "something else bounds the step"),
    "per_step": Text("html-per-step", "per step", "after a time"),
    "combined": Text("html-combined", "All fixes together"),
    "next_bottleneck": Text("html-next-bottleneck", "What bounds the step after that:"),
    "advice": cards.WHAT_TO_DO,
    "not_when": cards.NOT_WHEN,
    "estimate": cards.ESTIMATE,
    "own": Text("html-own", "On its own resource:", "followed by a time, and the resource in brackets"),
    "evidence": cards.EVIDENCE,
    "measured": Text("html-measured", "Measured"),
    "observed": Text("html-observed", "Observed"),
    "threshold": Text("html-threshold", "Threshold"),
    "where": Text("html-where", "Where"),
    "links": cards.DOCUMENTATION,
    "link": Text("html-link", "Link to this finding"),
    "copy_code": Text("html-copy", "Copy"),
    "csv": Text("html-csv", "Copy as CSV"),
    "filter": Text("html-filter", "Filter"),
    "all_rows_command": Text("html-all-rows-command", "traceanalyzer report TRACE -o report.json", "do not translate"),
    "on_paper": Text("html-on-paper", "On paper, only the first 25 rows."),
    "several": Text("html-several", "Several short ones"),
    "zoom_in": Text("html-zoom-in", "Zoom in"),
    "zoom_out": Text("html-zoom-out", "Zoom out"),
    "zoom_all": Text("html-zoom-all", "Whole step"),
    "pan_left": Text("html-pan-left", "Earlier"),
    "pan_right": Text("html-pan-right", "Later"),
    "which_time": Text("html-which-time", "Time", "a choice of steps and other times of the recording"),
    "search_timeline": Text("html-search-timeline", "Search kernel or operator"),
    "previous": Text("html-previous", "Previous"),
    "next": Text("html-next", "Next"),
    "shows": Text("html-shows", "Show in the timeline"),
    "open_timeline": Text("html-open-timeline", "Open the timeline"),
    "why_idle": Text("html-why-idle", "Idle because", "before causes of idle time"),
    "waterfall_help": Text(
        "html-timeline-help",
        "Click it first, then: the mouse wheel, two fingers, W and S or + and - zoom, dragging, A and D pan, arrow "
        "keys walk through slices and lanes, Enter fits the chosen slice, G follows the arrow from launch to kernel, "
        "0 shows everything. Ctrl with the wheel zooms at once. A click on idle time opens the finding about it.",
    ),
    "flames_search": Text("html-flames-search", "Search frames"),
    "flames_whole": Text("html-flames-whole", "Whole graph"),
    "flames_help": Text(
        "html-flames-help",
        "A click or Enter makes a bar as wide as the graph; a second click leads one level up, Esc shows the whole "
        "graph. Arrow keys walk through the bars.",
    ),
    "find": Text("html-find", "Search the whole report"),
    "find_button": Text("html-find-button", "Search ( / )", "a button; / is the key that does the same"),
    "lines": Text("html-lines", "In your code:", "followed by files with line numbers"),
    "tree": modules.TREE_TITLE,
    "open_all": Text("html-open-all", "Open all"),
    "close_all": Text("html-close-all", "Close all"),
}

_SCRIPT = {
    "copied": Text("html-copied", "Copied"),
    "not_copied": Text("html-not-copied", "Not copied"),
    "dark": Text("html-dark", "Dark"),
    "light": Text("html-light", "Light"),
    "found": Text("html-found", "{shown} of {all} rows"),
    "several": Text("html-slice-several", "{count} short slices"),
    "block": Text("html-slice-block", "{count} events, the longest {name}"),
    "hits": Text("html-hits", "{shown} of {all}", "which of the slices that were found"),
    "idle_lane": Text("html-idle-lane", "GPU is idle, by cause"),
    "slice": Text("html-slice", "{name}: {duration}, from {start}, {lane}", "a slice of the timeline"),
    "flames_frame": Text(
        "html-flames-frame", "{name}: {time}, {share} % of {all}", "a bar of a flame graph; times have their units"
    ),
    "flames_several": Text("html-flames-several", "{count} short frames"),
    "flames_found": Text("html-flames-found", "Found: {count}; {time}, {share} %"),
    "find_finding": Text("html-find-finding", "Finding", "kind of what a search found"),
    "find_section": Text("html-find-section", "Section", "kind of what a search found"),
    "find_term": Text("html-find-term", "Definition", "kind of what a search found"),
    "found_all": Text("html-found-all", "Found: {count}"),
    "view": Text("html-view", "{from} to {to} of {all}", "times"),
}
"""Labels with fields that the script fills in."""


def labels(language: Language) -> dict[str, str]:
    """Labels that the templates use."""
    return {key: language.text(text) for key, text in _LABELS.items()}


def script_labels(language: Language) -> dict[str, str]:
    """Labels that the script uses, with their fields unfilled."""
    return {key: language.text(text, **{f: f"{{{f}}}" for f in _fields(text)}) for key, text in _SCRIPT.items()}


def _fields(text: Text) -> list[str]:
    return [part.partition("}")[0] for part in text.english.split("{")[1:]]
