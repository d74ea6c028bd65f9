"""Takes out of a captured trace what names a machine, a person or a folder."""

from __future__ import annotations

import re

_FIRST_NUMBER = 1001
_NUMBER_KEYS = re.compile(r'("(?:pid|tid)": "?)(\d+)')
_LINE_KEYS = re.compile(r'\n\s*"(?:host_name|PT_PROFILER_JOB_\w+|username)": "[^"]*",')
_TRACE_NAME = re.compile(r',\s*"traceName":\s*"[^"]*"')
_PATH = re.compile(r'(?<![\w.)\]>])/(?:[^/\s"();,]+/)+(?=[^/\s"();,]+\.py\b)')
_PACKAGE = re.compile(r"/(?:site|dist)-packages/")


def scrub(text: str) -> str:
    """A trace without host, user, job and path, with small process and thread numbers."""
    text = _TRACE_NAME.sub("", _LINE_KEYS.sub("", text))
    numbers = sorted({int(found[1]) for found in _NUMBER_KEYS.findall(text)} - {0})
    small = {old: _FIRST_NUMBER + order for order, old in enumerate(numbers)}

    def shrink(match: re.Match[str]) -> str:
        return match[1] + str(small.get(int(match[2]), match[2]))

    for pattern in (_NUMBER_KEYS, re.compile(r"(\bthread )(\d+)"), re.compile(r'("sort_index": )(\d+)')):
        text = pattern.sub(shrink, text)
    return scrub_paths(text)


def scrub_paths(text: str) -> str:
    """Python files by their place in a package, or by their name."""
    return _PATH.sub(lambda match: _PACKAGE.split(match[0])[1] if _PACKAGE.search(match[0]) else "", text)
