"""Removes machine names, user names and folders outside the project from a trace."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable

_KEYS = re.compile(rb'"(?:host_name|PT_PROFILER_JOB_\w+)"\s*:\s*"(?:[^"\\]|\\.)*"\s*,?')
_TRACE_NAME = re.compile(rb',\s*"traceName"\s*:\s*"(?:[^"\\]|\\.)*"')
_FRAME = re.compile(rb'(?<=")(?:/|[A-Za-z]:[/\\])[^";]*[/\\](?=[^"/\\;]+\(\d+\): )')
"""The folder of a stack frame, which may hold blanks: `/any where/file.py(12): function`."""
_FOLDER = re.compile(
    rb"(?<![\w.)\]>:/~])/(?:[^/\s\"'();,\\]+/)+(?=[^/\s\"'();,\\])"
    rb"|(?<![A-Za-z0-9])[A-Za-z]:[/\\]+(?:[^/\\\s\"'();,]+[/\\]+)+"
)
"""The folder of any other absolute path."""


class Cleaner:
    """Cleans the lines of a trace: paths become relative to the project or to the package that contains them."""

    def __init__(self, project: str, packages: Iterable[str], home: str) -> None:
        inside = [folder for folder in {*packages, project} if _is_a_folder_worth_naming(folder, home)]
        longest_first = sorted(inside, key=lambda folder: (-len(folder), folder))
        known = b"|".join(re.escape(os.fsencode(folder.rstrip("/"))) for folder in longest_first)
        self._known = re.compile(rb"(?<![\w.~/-])(?:" + known + rb")/") if known else None
        self._home = re.compile(re.escape(os.fsencode(home)) + rb"(?![\w/-])") if len(home) > 1 else None

    def clean(self, line: bytes) -> bytes:
        """Clean one or several lines."""
        if b'_name"' in line or b"PT_PROFILER" in line:
            line = _KEYS.sub(b"", line)
        if b"/" not in line and b"\\" not in line:
            return _TRACE_NAME.sub(b"", line) if b"traceName" in line else line
        line = _TRACE_NAME.sub(b"", line)
        if self._known is not None:
            line = self._known.sub(b"", line)
        if self._home is not None:
            line = self._home.sub(b"~", line)
        return _FOLDER.sub(b"", _FRAME.sub(b"", line))


def _is_a_folder_worth_naming(folder: str, home: str) -> bool:
    """Whether a folder is absolute and does not contain the home folder: paths relative to `/` would name the user."""
    above = folder.rstrip("/") + "/"
    return os.path.isabs(folder) and len(folder) > 1 and not home.startswith(above)  # noqa: PTH117 - plain text


def of_this_process(project: str) -> Cleaner:
    """Create a cleaner for this process, which knows the package folders of its Python."""
    paths = sysconfig.get_paths()
    packages = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages += [entry for entry in sys.path if entry]
    if site.ENABLE_USER_SITE:
        packages.append(site.getusersitepackages())
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
    return Cleaner(project, [*packages, own], os.path.expanduser("~"))  # noqa: PTH111 - text, not a path to open
