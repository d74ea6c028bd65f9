"""Labels of the page, because templates and the script contain no texts."""

from __future__ import annotations

from traceanalyzer.formats import cards
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.sections import modules
from traceanalyzer.sections.findings import NEXT
from traceanalyzer.sections.outcome import IN_ALL

_LABELS = {
    "skip": Text("html-skip", "Skip to the report"),
    "contents": Text("html-contents", "Contents"),
    "summary": Text("html-summary", "Summary"),
    "theme": Text("html-theme", "Theme"),
    "where_time_goes": Text("html-where-time-goes", "Where the step goes", "a heading: parts of a step by time"),
    "in_use": Text("html-in-use", "In use, of the step", "above bars of GPU, CPU and the like"),
    "overlap": Text("html-overlap", "At the same time, so these do not add up."),
    "more_about_step": Text("html-more-about-step", "More about the step"),
    "best": Text("html-fix-first", "What to fix first"),
    "best_how": Text(
        "html-fix-first-how", "Saved by each fix alone: most likely (at least-at most)", "beside What to fix first"
    ),
    "next_step": NEXT,
    "or_nothing": Text("html-or-nothing", "or nothing", "after a time that may be saved"),
    "per_step": Text("html-per-step", "per step", "after a time"),
    "less_at_peak": Text("html-less-at-peak", "less at the peak", "of memory; after a number of bytes"),
    "in_all": IN_ALL,
    "combined": Text("html-combined", "All fixes together"),
    "next_bottleneck": Text("html-next-limit", "What limits the step after that:"),
    "advice": cards.WHAT_TO_DO,
    "not_when": cards.NOT_WHEN,
    "estimate": cards.ESTIMATE,
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
    "waterfall_help": Text(
        "html-timeline-help-2",
        "Dragging selects a range and says what is in it; so do M for the chosen slice, and [ and ] for the beginning "
        "and end of several. Click first, then: the mouse wheel, two fingers, W and S or + and - zoom, A and D or "
        "dragging with Shift pan, arrow keys walk through slices and lanes, Enter fits the chosen slice, G follows the "
        "arrow from launch to kernel, 0 shows everything, Esc ends a selection. A click on idle time opens its "
        "finding.",
    ),
    "flames_search": Text("html-flames-search", "Search frames"),
    "arrived": Text("html-arrived", "Shown for this finding:", "followed by a link back to a finding"),
    "back_to_curve": Text("html-back-to-curve", "Back to the curve", "a link to memory over time"),
    "bottom_up": Text("html-bottom-up", "Bottom-up", "a flame graph that begins with what takes the time itself"),
    "copy_markdown": Text("html-copy-markdown", "Copy as Markdown"),
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
    "hits": Text("html-hits-in-all", "{shown} of {all}, {time}", "which of the slices that were found; their time"),
    "range": Text("html-range", "{from} to {to}: {length}", "a range of time that somebody selected; times"),
    "range_lanes": Text("html-range-lanes", "Lane", "head of a column: threads and streams"),
    "range_classes": Text("html-range-classes", "Kind of GPU work, and idle time", "head of a column"),
    "range_names": Text("html-range-names", "Name", "head of a column: names of events"),
    "range_time": Text("html-range-time", "Time", "head of a column"),
    "range_count": Text("html-range-count", "Count", "head of a column: number of events"),
    "range_several": Text("html-range-several", "Short events", "several that are drawn as one"),
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
