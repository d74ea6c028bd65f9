"""Names of a trace and values of a report in words that are safe to show.

Names may contain escapes, markup, line breaks, and kilobytes of text; values may be of a later version.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from traceanalyzer.report.message import Message, Text

UNKNOWN = Text("value-unknown", "unknown", "in place of a quantity")
PARTS = {
    "loader": Text("program-part-loader", "waiting for data"),
    "result": Text("program-part-result", "waiting for results of the device"),
    "forward": Text("program-part-forward", "forward"),
    "backward": Text("program-part-backward", "backward"),
    "update": Text("program-part-update", "update"),
    "communication": Text("program-part-communication", "communication"),
    "evaluation": Text("program-part-evaluation", "evaluation"),
    "checkpoint": Text("program-part-checkpoint", "checkpoint"),
    "function": Text("program-part-function", "function", "of a program"),
    "line": Text("program-part-line", "line", "of a program"),
    "call": Text("program-part-call", "call", "of the device's runtime"),
}
"""What parts of a program are called, by the ids that `knowledge.marks` gives them."""
_CONTROL = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SPACE = re.compile(r"\s+")
_CODE = re.compile(r"(?<!`)`([^`|\s](?:[^`|]*[^`|\s])?)`(?!`)")
"""Pattern of code in a sentence. Code with a pipe stays text, because a pipe ends the cell of a Markdown table."""
_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|(?<=[\u3002\uff01\uff1f])")
"""Where a sentence ends and another one begins."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that spreadsheets take for a formula, including fullwidth ones (owasp.org, CSV Injection)."""


_MOST_RANGES = 12
"""Ranges of a list of ranks that are written out."""


def in_ranges(ranks: Iterable[int]) -> str:
    """A list of ranks, with ranges: `0-7, 9`; many of them are cut, with the number of all ranks."""
    ordered = sorted(set(ranks))
    ranges: list[tuple[int, int]] = []
    for rank in ordered:
        if ranges and ranges[-1][1] == rank - 1:
            ranges[-1] = (ranges[-1][0], rank)
        else:
            ranges.append((rank, rank))
    written = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in ranges[:_MOST_RANGES]]
    return ", ".join(written) + (f", ... ({len(ordered)})" if len(ranges) > _MOST_RANGES else "")


_MOST_MANGLED = 4096
"""Most demangled names that are kept (own choice): a long one takes a millisecond, and programs have far fewer."""


def clean(name: str) -> str:
    """Clean a name to one line, demangled, without control characters, direction overrides and surrogates."""
    return _SPACE.sub(" ", visible(readable(name))).strip()


def readable(name: str) -> str:
    """A name as C++ has it if a writer left it mangled (`_ZN...`) and it can be read; else the name as it is."""
    return _demangled(name) if name.startswith("_Z") else name


@lru_cache(_MOST_MANGLED)
def _demangled(name: str) -> str:
    from demangle import demangle  # noqa: PLC0415 - takes as long to import as a small trace to read

    return demangle(name, language="itanium", style="gnu")


def in_one_line(name: str) -> str:
    """A name as it is, blanks included, if each of its characters can be shown in one line; else a clean one."""
    return name if name.isprintable() else clean(name)


def clean_code(code: str) -> str:
    """Clean each line of code, keeping indentation."""
    return "\n".join(line[: len(line) - len(line.lstrip(" "))] + clean(line) for line in code.split("\n"))


def visible(name: str) -> str:
    """Replace control characters, direction overrides and surrogates, keeping blanks and line breaks."""
    if name.isprintable():  # the usual case, which must be fast: a report may have a million names
        return name
    return "".join("\ufffd" if unicodedata.category(c) in _CONTROL and not c.isspace() else c for c in name)


def code_parts(sentence: str) -> list[str]:
    """Split a sentence at the code between backticks; every second part is code."""
    parts: list[str] = []
    at = 0
    for match in _CODE.finditer(sentence):
        parts += sentence[at : match.start()], sentence[match.start(1) : match.end(1)]
        at = match.end()
    return [*parts, sentence[at:]]


def first_sentence(text: str) -> str:
    """The first sentence of a text; a dot within a name, or before a small letter, ends none."""
    end = _END.search(text)
    return text[: end.start()].rstrip() if end else text


def inert(cell: str) -> str:
    """Escape text that a spreadsheet would take for a formula, because names in a trace are untrusted."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def shorten(name: str, width: int) -> str:
    """Shorten to `width` characters, keeping the beginning and the end, which distinguishes variants."""
    if len(name) <= width:
        return name
    tail = max(0, (width - 3) // 3)
    return name[: width - 3 - tail] + "..." + name[len(name) - tail :]


_LONGEST_CODE = 100
"""Letters of a name in a sentence (own choice: what `nsys` shows of a kernel is about as long)."""
_ARGUMENTS = re.compile(r"\([^()]*\)(?: const)?\Z|\Avoid ")


def as_code(name: str) -> str:
    """A name as code in a sentence: demangled, and without arguments where it is too long for one."""
    name = clean(name)
    return f"`{name if len(name) <= _LONGEST_CODE else clipped(_ARGUMENTS.sub('', name), _LONGEST_CODE)}`"


def clipped(name: str, width: int) -> str:
    """A clean name of at most `width` characters; only the ends of a very long name are read."""
    return shorten(clean(shorten(name, 8 * width)), width)


def word(texts: Mapping[str, Text], key: str) -> Text | Message:
    """The text of a key; the key itself if this version has no text for it."""
    said = clean(key)
    return texts.get(key) or (Message("word-of-another-version", {}, said) if said else UNKNOWN)


def code_place(file: str | None, line: int | None) -> str | None:
    """The last two parts of a path, and the line: enough to find it; None without a file."""
    if file is None:
        return None
    short = "/".join(file.replace("\\", "/").split("/")[-2:])
    return short if line is None else f"{short}:{line}"


def named_code(function: str | None, file: str | None, line: int | None) -> str:
    """A place in the code with its function; a question mark if both are unknown."""
    return " ".join(filter(None, (code_place(file, line), function))) or "?"


def numbered(rules: Iterable[str]) -> list[str]:
    """Ids of findings by their rules: the rule, and from its second finding on `RULE#2`."""
    seen: Counter[str] = Counter()
    ids = []
    for rule in rules:
        seen[rule] += 1
        ids.append(rule if seen[rule] == 1 else f"{rule}#{seen[rule]}")
    return ids
