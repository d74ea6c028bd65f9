"""What a finding saves, in the reader's language: a price, a question, or why it is nothing yet."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from traceanalyzer.formats.language import Language
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Finding, Saving

_LATENT = {
    "gpu": Text("advice-latent-gpu", "No gain yet: the GPU is the limit"),
    "host": Text("advice-latent-host", "No gain yet: the CPU is the limit"),
    "loader": Text("advice-latent-loader", "No gain yet: the DataLoader is the limit"),
    "communication": Text("advice-latent-communication", "No gain yet: communication is the limit"),
}
"""Why a finding saves nothing yet, by the resource that bounds the step."""
_LATENT_BY = Text("advice-latent", "No gain yet: the limit is {resource}", "a resource that a later version knows")
_LATENT_UNKNOWN = Text("advice-latent-unknown", "Maybe no gain yet: the trace does not show what limits the program")
_LITTLE = {
    "gpu": Text("advice-little-gpu", "Little gain yet: the GPU is the limit"),
    "host": Text("advice-little-host", "Little gain yet: the CPU is the limit"),
    "loader": Text("advice-little-loader", "Little gain yet: the DataLoader is the limit"),
    "communication": Text("advice-little-communication", "Little gain yet: communication is the limit"),
}
"""Why a finding saves hardly anything yet, beside the little that it saves, by the resource that bounds the step."""
_LITTLE_BY = Text("advice-little", "Little gain yet: the limit is {resource}", "a resource that a later version knows")
_LITTLE_UNKNOWN = Text("advice-little-unknown", "The trace does not show what limits the program")
_AFTER_FIXES = Text(
    "advice-after-fixes",
    "{latent}; after earlier fixes {time} per step",
    note="latent is such as: No gain yet: the CPU is the limit; time is what is then saved, such as 28 ms (25-31)",
)
_SAVES = Text("card-saves", "Saves {time} per step ({share}).", note="time and share are intervals, such as up to 3 ms")
_SAVES_OF_STEPS = Text(
    "card-saves-of-steps",
    "Saves {time} per step ({share}); the typical steps are {steps:share} of the trace.",
    note="time and share are intervals, such as up to 3 ms",
)
_SAVES_IN_ALL = Text(
    "card-saves-in-all", "Saves {time} in all ({share}).", note="time and share are intervals, such as up to 3 ms"
)
_MAY_SAVE = Text(
    "card-may-save",
    "May save {time} per step ({share}), or nothing: {decided}.",
    note="time and share are such as up to 3 ms; decided says what would show it",
)
_MAY_SAVE_IN_ALL = Text(
    "card-may-save-in-all",
    "May save {time} in all ({share}), or nothing: {decided}.",
    note="time and share are such as up to 3 ms; decided says what would show it",
)
_SAVES_LITTLE = Text(
    "card-saves-little",
    "{saves} {latent}.",
    note="saves is a sentence, latent a clause without a full stop: Little gain yet: the GPU is the limit",
)
_SAVES_ONCE = Text(
    "card-saves-once",
    "Saves {time} once ({share:share} of the trace), outside of the typical steps.",
    note="time is an interval, such as up to 3 ms",
)
_SAVES_OUTSIDE = Text(
    "card-saves-outside",
    "Saves {time} of the trace ({share:share}), outside of the typical steps.",
    note="time is an interval, such as up to 3 ms",
)
_LOWERS = Text(
    "card-lowers-peak", "Lowers the peak by {saved} ({share}).", note="saved and share are intervals: 6.3-6.5 GiB"
)


class Price(NamedTuple):
    """What is said of the saving; None each where that cannot be said."""

    time: str | None = None
    share: str | None = None
    latent: str | None = None
    """Why it saves little or nothing yet."""
    saves: str | None = None
    """The sentence with time and share, where they are a price."""
    question: str | None = None
    """The sentence with time and share, where something unknown decides whether it saves them."""
    own: str | None = None
    """Time that it saves on its own resource, if `time` is another."""


def price(finding: Finding, language: Language) -> Price:
    """Say what a finding saves per step, and why that is little, nothing or in question."""
    saving = finding.saving
    if saving is None:
        return Price(latent=latent(finding, language))
    decided = None if finding.latent else saving.decided_by
    if decided is not None:
        saving = replace(saving, point_ns_per_step=None)  # nothing between both ends is more likely
    time = share = None
    if not finding.latent or saving.wall_ns_per_step[0] > 0:  # else it may be nothing yet
        time = saved_time(saving, language)
        share = saved_share(saving, language)
    why_latent = latent(finding, language, time)
    saves = question = None
    if time and share:
        if decided is None:
            saves = _saves(_priced(saving, time, share, language), why_latent, language)
        else:
            text = _MAY_SAVE_IN_ALL if saving.is_of_whole_run else _MAY_SAVE
            question = language.text(text, time=time, share=share, decided=language.say(decided))
    own = own_time(saving, language)
    if time and own_time(saving, language.unmarked) == saved_time(saving, language.unmarked):
        own = None
    return Price(time, share, why_latent, saves, question, own)


def _priced(saving: Saving, time: str, share: str, language: Language) -> str:
    """The sentence with a price, and of what it is one."""
    if saving.steps_share is not None:
        return language.text(_SAVES_OF_STEPS, time=time, share=share, steps=saving.steps_share)
    return language.text(_SAVES_IN_ALL if saving.is_of_whole_run else _SAVES, time=time, share=share)


def _saves(saves: str, why_latent: str | None, language: Language) -> str:
    """The sentence with a price, and why it is little."""
    return language.text(_SAVES_LITTLE, saves=saves, latent=why_latent) if why_latent else saves


def saved_time(saving: Saving | Combined, language: Language) -> str | None:
    """`52 ms (46-58)` per step, or `46-58 ms` without a most likely value; None without a saving."""
    return _estimate(saving.wall_ns_per_step, saving.point_ns_per_step, language)


def saved_share(saving: Saving | Combined, language: Language) -> str | None:
    """`25-31 %` of the step; None without a saving, which would be shown as 0."""
    value = (saving.wall_share[0], None, saving.wall_share[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimated_share")[2])
    return None if is_nothing else language.quantity(value, "estimated_share", "saving-share")


def own_time(saving: Saving, language: Language) -> str | None:
    """Saving per step on the finding's own resource, independent of other resources."""
    return _estimate(saving.direct_ns_per_step, None, language, "saving-of-resource")


def _estimate(
    interval: tuple[float, float], point: float | None, language: Language, concept: str = "saving"
) -> str | None:
    """An estimated time; None if it would be shown as 0."""
    value = (interval[0], point, interval[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimate")[2])
    return None if is_nothing else language.quantity(value, "estimate", concept)


def latent(finding: Finding, language: Language, saved: str | None = None) -> str | None:
    """Why it saves nothing yet, and what it saves after others; None if it is not latent.

    Args:
        finding: The finding.
        language: The reader's language.
        saved: The little that it saves by itself; None if that may be nothing.
    """
    if not finding.latent:
        return None
    why = _limit(finding.blocked_by, language, is_little=bool(saved))
    if finding.after_fixes_ns_per_step is None:
        return why
    low, point, high = finding.after_fixes_ns_per_step
    now = finding.saving
    if saved and now and _likely(now.point_ns_per_step, now.wall_ns_per_step[1]) == _likely(point, high):
        return why
    time = _estimate((low, high), point or None, language, "saving-after-fixes")
    return language.text(_AFTER_FIXES, latent=why, time=time) if time else why


def _limit(blocked_by: str | None, language: Language, *, is_little: bool) -> str:
    """What limits the step so that a finding saves little, or nothing."""
    if blocked_by is None:
        return language.text(_LITTLE_UNKNOWN if is_little else _LATENT_UNKNOWN)
    by_resource = _LITTLE if is_little else _LATENT
    if blocked_by in by_resource:
        return language.text(by_resource[blocked_by])
    return language.text(_LITTLE_BY if is_little else _LATENT_BY, resource=blocked_by)


def _likely(point: float | None, most: float) -> str:
    """The most likely time, or the most where only bounds are known, as it is shown."""
    return units.estimate((point or most, None, point or most))


def once(finding: Finding, language: Language) -> str | None:
    """The sentence on a saving outside of the typical steps; None without one."""
    saved = finding.once
    if saved is None:
        return None
    time = _estimate(saved.wall_ns, saved.point_ns, language)
    text = _SAVES_OUTSIDE if saved.comes_back else _SAVES_ONCE
    return language.text(text, time=time, share=saved.share_of_recording) if time else None


class Lowered(NamedTuple):
    """What the peak of a device's memory loses; None each where nothing is known of it."""

    size: str | None = None
    """Such as `6.3-6.5 GiB`."""
    share: str | None = None
    """The same as a share of the peak."""
    said: str | None = None
    """Both in a sentence."""


def lowered(finding: Finding, language: Language) -> Lowered:
    """Say what the fix saves of the peak of a device's memory."""
    if finding.peak is None:
        return Lowered()
    least, most = finding.peak.requested_bytes
    low, high = finding.peak.requested_share
    size = language.quantity((least, None, most), "estimated_bytes", "saving-peak")
    share = language.quantity((low, None, high), "estimated_share", "saving-peak-share")
    return Lowered(size, share, language.text(_LOWERS, saved=size, share=share))
