"""Names of modules without their numbers, so that equal blocks of a model are one."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64

_MODULE = "nn.Module: "
_NUMBER = re.compile(r"_\d+$")


def class_name(name: str) -> str:
    """`Linear` of `nn.Module: Linear_3`; other names as they are."""
    return _NUMBER.sub("", name.removeprefix(_MODULE)) if name.startswith(_MODULE) else name


def class_codes(context: Context) -> I64:
    """For each name of the trace, the code of the first name with the same class."""
    first: dict[str, int] = {}
    return np.array(
        [first.setdefault(class_name(name), code) for code, name in enumerate(context.trace.names)], np.int64
    )
