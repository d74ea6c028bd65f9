"""Kinds of values that several commands take."""

from __future__ import annotations

import re

import click

_RANGE = re.compile(r"(\d{0,18}):(\d{0,18})|(\d{1,18})")
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{0,9})?)\s*(%?)")


class Steps(click.ParamType[tuple[int | None, int | None]]):
    """`A:B`, `A:`, `:B` or `A`, both ends included."""

    name = "A:B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """The first and the last step."""
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is no range of steps; write A:B, A: or :B", param, ctx)
        first, last, single = (int(part) if part else None for part in match.groups())
        return (first, last) if single is None else (single, single)


class Share(click.ParamType[float]):
    """`3%`, or the same as a fraction, `0.03`."""

    name = "N%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a fraction."""
        if isinstance(value, float):
            return value
        match = _SHARE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value} is no share; write 3% or 0.03", param, ctx)
        number = float(match[1])
        if match[2]:
            return number / 100
        if number >= 1:
            self.fail(f"{value} is a whole number of what? Write {value}% or a fraction below 1", param, ctx)
        return number
