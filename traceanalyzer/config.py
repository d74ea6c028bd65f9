"""Settings from `[tool.traceanalyzer]` of pyproject.toml, or from traceanalyzer.toml, in the current folder."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from traceanalyzer.errors import UsageError

_SETTINGS = ("gpu", "rules", "select", "ignore", "language", "format", "top", "fail-on")
SEVERITIES = ("info", "low", "medium", "high", "critical")
"""Of findings, the mildest first."""
FORMATS = ("terminal", "markdown", "html", "json", "sarif", "csv", "xlsx")
"""Of reports, as `renderers` makes them."""
GPU_KEYS = (
    "name", "bandwidth", "fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "fp16", "bf16", "fp8", "int8",
)  # fmt: skip
"""Of the device that the trace was recorded on: memory bandwidth in GB/s, rates in TFLOP/s."""


@dataclass(frozen=True)
class Config:
    """What a project has settled; everything has a default."""

    gpu: Mapping[str, Any] = field(default_factory=dict)
    """Peaks of the device, for devices that the table does not know or gets wrong."""
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Thresholds by rule and key, in place of the rules' own."""
    select: tuple[str, ...] = ()
    """Only these rules; empty: all."""
    ignore: tuple[str, ...] = ()
    """Not these rules."""

    language: str = "en"
    """Of what people read: a code, or auto."""
    formats: tuple[str, ...] = ()
    """Where neither an option nor a suffix says the format: all of them in a batch, else the first."""
    top: int | None = None
    """Rows of each ranking; the format's own number if None."""
    fail_on: str | None = None
    """The severity of a finding that makes the exit code 1."""

    def choosing(self, select: tuple[str, ...], ignore: tuple[str, ...]) -> Config:
        """The same with a choice of rules for this run; what is not chosen stays as it is."""
        return replace(self, select=select or self.select, ignore=(*self.ignore, *ignore))


def load(folder: Path | None = None) -> Config:
    """The settings of a folder; `traceanalyzer.toml` before `pyproject.toml`.

    Raises:
        UsageError: The file is no TOML, or holds a key or value that means nothing.
    """
    folder = folder or Path()
    for name, path in (("traceanalyzer.toml", ()), ("pyproject.toml", ("tool", "traceanalyzer"))):
        file = folder / name
        if file.is_file():
            settings = _table(_parse(file), path, name)
            if settings or not path:
                return _config(settings, name)
    return Config()


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file.name}: is no TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{file.name}: cannot be read: {error.strerror or error}") from None


def _table(value: Any, path: Iterable[str], name: str) -> dict[str, Any]:
    for key in path:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    if not isinstance(value, dict):
        raise UsageError(f"{name}: tool.traceanalyzer is no table")
    return value


def _config(settings: Mapping[str, Any], name: str) -> Config:
    _require_known(settings, _SETTINGS, name)
    return Config(
        gpu=_gpu(settings.get("gpu", {}), name),
        rules=_rules(settings.get("rules", {}), name),
        select=_ids(settings, "select", name),
        ignore=_ids(settings, "ignore", name),
        language=_text(settings, name),
        formats=_formats(settings.get("format", []), name),
        top=_top(settings.get("top"), name),
        fail_on=_severity(settings.get("fail-on"), name),
    )


def _text(settings: Mapping[str, Any], name: str) -> str:
    found = settings.get("language", "en")
    if not isinstance(found, str):
        raise UsageError(f'{name}: language = {found!r}: a code such as "ru" is needed')
    return found


def _formats(value: Any, name: str) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise UsageError(f'{name}: format = {value!r}: a format such as "html", or a list of them, is needed')
    for entry in found:
        if entry not in FORMATS:
            near = difflib.get_close_matches(entry, FORMATS, 1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(FORMATS)} is needed"
            raise UsageError(f"{name}: format = {entry!r}: {hint}")
    return tuple(dict.fromkeys(found))


def _top(value: Any, name: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise UsageError(f"{name}: top = {value!r}: a whole number from 1 on is needed")
    return value


def _severity(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if value not in SEVERITIES:
        raise UsageError(f"{name}: fail-on = {value!r}: one of {', '.join(SEVERITIES)} is needed")
    return str(value)


def _gpu(gpu: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(gpu, dict):
        raise UsageError(f"{name}: gpu is no table; write [gpu] and its keys below")
    _require_known(gpu, GPU_KEYS, name)
    for key, value in gpu.items():
        if not (isinstance(value, str) if key == "name" else _is_number(value) and value > 0):
            raise UsageError(
                f"{name}: gpu.{key} = {value!r}: a {'text' if key == 'name' else 'positive number'} is needed"
            )
    return gpu


def _rules(rules: Any, name: str) -> Mapping[str, Mapping[str, float]]:
    """Numbers by rule and threshold; whether they exist is known where the rules are."""
    if not isinstance(rules, dict) or not all(isinstance(limits, dict) for limits in rules.values()):
        raise UsageError(f'{name}: rules is no table of tables; write [rules."dataloader-bound"] and its keys below')
    for rule, limits in rules.items():
        for key, value in limits.items():
            if not _is_number(value) or value < 0:
                raise UsageError(f"{name}: rules.{rule}.{key} = {value!r}: a number, 0 or greater, is needed")
    return rules


def _ids(settings: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    found = settings.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise UsageError(f'{name}: {key} is no list of rules; write {key} = ["dataloader-bound"]')
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_known(found: Iterable[str], known: tuple[str, ...], name: str) -> None:
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise UsageError(
                f"{name}: unknown key {key}; "
                + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")
            )
