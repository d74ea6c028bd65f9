"""Takes apart what was joined: texts with escaped line ends, such as notebooks in one line, and lines of several ranks.

A notebook without line breaks, the value of a cell that ends in a bare expression, and a log in JSON have a backslash
and an n where a table has the end of a line. Launchers put the number of a rank before each line, and print the lines
of all ranks as they come.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from traceanalyzer.readers.key_averages.header import table_dashes
from traceanalyzer.readers.key_averages.lines import Lines

_ESCAPED_END = re.compile(r"\\{1,4}n")
_FEWEST_ENDS = 3
"""Least number of escaped ends in one line; strings of programs and lines of notebooks have one or two."""
_STRING_END = re.compile(r'(?<!\\)"')
_WORDS = re.compile(r"[\w-]")
_ESCAPES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\\{1,4}(?:u00|x)1b"), "\x1b"),
    (re.compile(r"\\{1,4}t"), "\t"),
    (re.compile(r"\\{1,4}u(?![dD][89a-fA-F])(?P<code>[0-9a-fA-F]{4})"), lambda match: chr(int(match["code"], 16))),
    (re.compile(r'\\{1,8}"'), '"'),
)
_MARKS = ("--", " time total:", "tottime", "GPU activities:", "Line #", "OP Type", "# gpu", " latency:", "CPU time:")
_MARKS_OF_LOGS = ("time (ms)", "time across ranks (ms)")
"""What a line with tables or timers has."""


def unescape(lines: Lines) -> Lines:
    """The same lines; one with escaped line ends and tables becomes as many as it stands for."""
    changed = {
        index: tuple(_unescaped(raw))
        for index, raw in enumerate(lines.raw)
        if "\\n" in raw
        and any(mark in raw for mark in (*_MARKS, *_MARKS_OF_LOGS))
        and len(_ESCAPED_END.findall(raw)) >= _FEWEST_ENDS
    }
    return lines.replaced(changed) if changed else lines


def _unescaped(raw: str) -> Iterator[str]:
    for string in _STRING_END.split(raw):
        if not _WORDS.search(string):  # what stands between two strings of a list
            continue
        lines = _ESCAPED_END.split(string)
        for line in lines if lines[-1] else lines[:-1]:
            plain = line
            for pattern, character in _ESCAPES:
                plain = pattern.sub(character, plain)
            yield plain.removeprefix("'") if plain.startswith("'-") else plain


_TIME = r"(?:[\[(]?[0-9][0-9:.,/TZ +-]{4,40}[\])]?\s*)?(?:\[?(?:DEBUG|INFO|WARNING)\]?:?\s*)?"
LABEL = re.compile(
    rf"^{_TIME}(?:[\[(<]?(?:local_)?(?:rank|default|worker|trainer|process|proc|gpu)[ _:#=-]?(?P<named>[0-9]{{1,6}})"
    r"[\])>]?[:|>]?|\[[0-9]+,(?P<mpi>[0-9]{1,6})\]<std(?:out|err)>:?|(?P<slurm>[0-9]{1,6}):)[ ]?",
    re.IGNORECASE,
)
"""What launchers put before each line: torchrun (`[rank0]:`, `[default0]:`), mpirun (`[1,0]<stdout>:`), srun (`0:`)."""


def unmix(lines: Lines) -> Lines:
    """The lines of each rank one after another, below a heading that names it, if tables of several are labeled."""
    with_tables = set(_labels(lines, [index for index in range(len(lines)) if _has_dashes(lines, index)]).values())
    if len(with_tables) < 2:
        return lines
    ours = {index: rank for index, rank in _labels(lines, range(len(lines))).items() if rank in with_tables}
    order = [index for index in range(len(lines)) if index not in ours]
    raw, numbers = [lines.raw[index] for index in order], [lines.number(index) for index in order]
    for rank in sorted(with_tables):
        own = [index for index, number in ours.items() if number == rank]
        raw += [f"# rank {rank}", "", *(LABEL.sub("", lines[index], count=1) for index in own)]
        numbers += [lines.number(own[0])] * 2 + [lines.number(index) for index in own]
    return Lines(raw, numbers)


def _labels(lines: Lines, indices: Iterable[int]) -> dict[int, int]:
    """The rank of each of some lines that has the label of one."""
    matches = ((index, LABEL.match(lines[index])) for index in indices)
    return {index: _number(match) for index, match in matches if match}


def _number(match: re.Match[str]) -> int:
    return int(match["named"] or match["mpi"] or match["slurm"])


def _has_dashes(lines: Lines, index: int) -> bool:
    return "--" in lines.raw[index] and table_dashes(lines[index]) is not None
