"""Reports on this process to the parent process, in a small file that is rewritten after every change."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

SUFFIX = ".note"


class Notes:
    """The file in which this process reports to the parent.

    Its keys: `rank`, `trace` (path), `superseded` (path of a trace that this one replaces), `facts` (newer than those
    in the trace), `steps`, `wanted`, `ended`, `whole_run` (path of a recording of everything), `profiles_itself`,
    `error`.
    """

    def __init__(self, scratch: str) -> None:
        self._folder = Path(scratch)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._values: dict[str, Any] = {}

    def tell(self, **values: Any) -> None:
        """Add or change keys; the file is replaced atomically."""
        self._values |= values
        temporary = self._folder / f".{self._name}"
        try:
            temporary.write_text(json.dumps(self._values), encoding="utf-8")
            temporary.replace(self._folder / (self._name + SUFFIX))
        except OSError:
            pass  # the parent has ended and removed its folder
