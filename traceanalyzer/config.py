"""Settings from `[tool.traceanalyzer]` of pyproject.toml, or from traceanalyzer.toml, in the current folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from traceanalyzer.errors import UsageError

MOST = 10**18
"""Greatest threshold (own choice: 30 years in ns, an exabyte)."""
_SECONDS = (0.01, 86400)
_FIGURES = (1e-6, 1e9)
"""Range of figures of a device (own choice: far beyond any device, and what is divided by them stays finite)."""

_SETTINGS = ("gpu", "rules", "select", "ignore", "language", "format", "top", "fail-on", "rule-seconds")
SEVERITIES = ("info", "low", "medium", "high", "critical")
"""Severities of findings, the mildest first."""
FORMATS = ("terminal", "markdown", "html", "brief", "json", "sarif", "csv", "xlsx")
"""Names of the formats that `traceanalyzer.formats` can make."""
GPU_KEYS = (
    "name", "bandwidth", "fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "fp16", "bf16", "fp8", "fp4",
    "int8", "bus",
)  # fmt: skip
"""Figures of the recorded device that may be set: bandwidth of memory and PCIe slot in GB/s, rates in TFLOP/s."""


@dataclass(frozen=True)
class Config:
    """The settings of a project; every one has a default."""

    gpu: Mapping[str, Any] = field(default_factory=dict)
    """Peak rates of the device, for devices that are missing or wrong in the table."""
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Thresholds by rule and key that replace the rules' own."""
    select: tuple[str, ...] = ()
    """Ids of the only rules that run; empty runs all."""
    ignore: tuple[str, ...] = ()
    """Ids of rules that do not run."""

    language: str = "en"
    """Language of reports: a code, or `auto`."""
    formats: tuple[str, ...] = ()
    """Formats to write where neither an option nor a suffix names one: all of them in a batch, else the first."""
    top: int | None = None
    """Number of rows of each ranking; None leaves it to the format."""
    rule_seconds: float = 60.0
    """Most seconds that a rule of another package may take (own choice: rules of this one take milliseconds)."""
    fail_on: str | None = None
    """Severity from which on a finding makes the exit code 1."""

    origin: str = field(default="", compare=False)
    """Prefix of a key in an error: the file, and in pyproject.toml the table."""
    options: frozenset[str] = field(default=frozenset(), compare=False)
    """Rules that the command line names, where errors must not blame the file."""

    def choosing(self, select: tuple[str, ...], ignore: tuple[str, ...]) -> Config:
        """A copy with another choice of rules for this run; an empty choice leaves the setting as it is."""
        return replace(
            self,
            select=select or self.select,
            ignore=(*self.ignore, *ignore),
            options=frozenset((*select, *ignore)) - {*self.select, *self.ignore},
        )

    def place(self, key: str, rule: str = "") -> str:
        """Where a setting comes from, for error messages.

        Args:
            key: Its key.
            rule: The rule that it names; it may come from the option of the same name.
        """
        return f"--{key}" if rule in self.options else f"{self.origin}{key}"


def load(folder: Path | None = None) -> Config:
    """Read the settings of a folder; `traceanalyzer.toml` comes before `pyproject.toml`.

    Raises:
        UsageError: The file is not valid TOML, or holds a key or value that means nothing.
    """
    folder = folder or Path()
    for name, path in (("traceanalyzer.toml", ()), ("pyproject.toml", ("tool", "traceanalyzer"))):
        file = folder / name
        if file.is_file():
            settings = _table(_parse(file), path, name)
            if settings or not path:
                return _config(settings, f"{name}: {''.join(f'{key}.' for key in path)}")
    return Config()


def _parse(file: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most folders have no settings

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except RecursionError:
        raise UsageError(f"{file.name}: is nested too deep; no setting is a list in a list") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise UsageError(f"{file.name}: is not valid TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{file.name}: cannot be read: {error.strerror or error}") from None


def _table(value: Any, path: Iterable[str], name: str) -> dict[str, Any]:
    for key in path:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    if not isinstance(value, dict):
        raise UsageError(f"{name}: tool.traceanalyzer is not a table; write [tool.traceanalyzer] and its keys below")
    return value


def _config(settings: Mapping[str, Any], origin: str) -> Config:
    _require_known(settings, _SETTINGS, origin)
    return Config(
        origin=origin,
        gpu=_gpu(settings.get("gpu", {}), origin),
        rules=_rules(settings.get("rules", {}), origin),
        select=_ids(settings, "select", origin),
        ignore=_ids(settings, "ignore", origin),
        language=_text(settings, origin),
        formats=_formats(settings.get("format", []), origin),
        top=_top(settings.get("top"), origin),
        rule_seconds=_seconds(settings.get("rule-seconds", Config.rule_seconds), origin),
        fail_on=_severity(settings.get("fail-on"), origin),
    )


def _text(settings: Mapping[str, Any], origin: str) -> str:
    language = settings.get("language", "en")
    if not isinstance(language, str):
        raise UsageError(f'{origin}language = {language!r}: a code such as "ru" is needed')
    return language


def _formats(value: Any, origin: str) -> tuple[str, ...]:
    formats = [value] if isinstance(value, str) else value
    if not isinstance(formats, list) or not all(isinstance(entry, str) for entry in formats):
        raise UsageError(f'{origin}format = {value!r}: a format such as "html", or a list of them, is needed')
    for entry in formats:
        if entry not in FORMATS:
            near = _nearest(entry, FORMATS)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(FORMATS)} is needed"
            raise UsageError(f"{origin}format = {entry!r}: {hint}")
    return tuple(dict.fromkeys(formats))


def _top(value: Any, origin: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise UsageError(f"{origin}top = {value!r}: a whole number from 1 on is needed")
    return value


def _seconds(value: Any, origin: str) -> float:
    if not is_within(value, *_SECONDS):
        least, most = _SECONDS
        raise UsageError(f"{origin}rule-seconds = {value!r}: a number of seconds from {least:g} to {most:g} is needed")
    return float(value)


def _severity(value: Any, origin: str) -> str | None:
    if value is None:
        return None
    if value not in SEVERITIES:
        raise UsageError(f"{origin}fail-on = {value!r}: one of {', '.join(SEVERITIES)} is needed")
    return str(value)


def _gpu(gpu: Any, origin: str) -> Mapping[str, Any]:
    if not isinstance(gpu, dict):
        raise UsageError(f"{origin}gpu is not a table; write [{_header(origin)}gpu] and its keys below")
    _require_known(gpu, GPU_KEYS, f"{origin}gpu.")
    for key, value in gpu.items():
        if key == "name":
            if not isinstance(value, str):
                raise UsageError(f"{origin}gpu.{key} = {value!r}: a text is needed")
        elif not is_within(value, *_FIGURES):
            least, most = _FIGURES
            raise UsageError(f"{origin}gpu.{key} = {value!r}: a number from {least:g} to {most:g} is needed")
    return gpu


def _rules(rules: Any, origin: str) -> Mapping[str, Mapping[str, float]]:
    """Thresholds by rule and key; whether these exist is checked later, where the rules are known."""
    if not isinstance(rules, dict) or not all(isinstance(limits, dict) for limits in rules.values()):
        example = f'[{_header(origin)}rules."dataloader-bound"]'
        raise UsageError(f"{origin}rules is not a table of tables; write {example} and its keys below")
    for rule, limits in rules.items():
        for key, value in limits.items():
            if not is_within(value, 0, MOST):
                raise UsageError(f"{origin}rules.{rule}.{key} = {value!r}: a number from 0 to {MOST:g} is needed")
    return rules


def _ids(settings: Mapping[str, Any], key: str, origin: str) -> tuple[str, ...]:
    ids = settings.get(key, [])
    if not isinstance(ids, list) or not all(isinstance(entry, str) for entry in ids):
        raise UsageError(f'{origin}{key} is not a list of rules; write {key} = ["dataloader-bound"]')
    return tuple(ids)


def is_within(value: object, least: float, most: float) -> bool:
    """Whether a value is a number in a range, which no infinity is, and nothing that is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def _header(origin: str) -> str:
    """Prefix of the name of a table: empty, or in pyproject.toml the table of this program."""
    return origin.partition(": ")[2]


def _nearest(word: str, known: Sequence[str]) -> list[str]:
    """The one that was meant, or nothing."""
    import difflib  # noqa: PLC0415 - only for what was mistyped

    return difflib.get_close_matches(word, known, 1)


def _require_known(names: Iterable[str], known: tuple[str, ...], origin: str) -> None:
    for key in names:
        if key not in known:
            near = _nearest(key, known)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"{origin}{key}: no such key; {hint}")
