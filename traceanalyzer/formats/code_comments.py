"""Comments in the code of findings, in the reader's language; the code itself is the same in all of them."""

from __future__ import annotations

from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text

COMMENTS = (
    Text(
        "comment-instead-nothing", "instead of {code}: nothing is multiplied out", "a comment in Python; code is code"
    ),
    Text("comment-instead", "instead of {code}", "a comment in Python; code is code"),
    Text("comment-not", "not: {code}", "a comment in Python; code is code"),
    Text("comment-and-at-start", "and {code} at the start", "a comment in Python; code is code"),
    Text("comment-and-every-hundred", "and {code} every hundred steps", "a comment in Python; code is code"),
    Text("comment-or-environment", "or {code} in the environment", "a comment in Python; code is code"),
    Text("comment-or-there", "or make it there: {code}", "a comment in Python; code is code"),
    Text("comment-without", "without {code}", "a comment in Python; code is code"),
    Text("comment-and-inputs", "and its inputs; or torch.autocast around the call", "it is a model"),
    Text("comment-as-before", "settings: as before", "settings is a name in the line"),
    Text("comment-before-compile", "before torch.compile", "a comment in Python; code is code"),
    Text("comment-before-loop", "before the loop; collect by hand now and then", "of garbage collection"),
    Text("comment-before-product", "before the first matrix multiplication", "of matrices"),
    Text("comment-graph-break", "raises at the first graph break and names it", "a comment in Python; code is code"),
    Text("comment-once", "once, before the first epoch", "a comment in Python; code is code"),
    Text("comment-or-none", "or 0, if batches are cheap", "a number of worker processes"),
    Text("comment-size-changes", "this size changes", "a comment in Python; code is code"),
    Text("comment-more-workers", "workers: more than now", "workers is a name in the line"),
)
"""All comments in the code of rules, the more special before the more general."""

_BEGIN = "  # "
_PARTS = [(text, *text.english.partition("{code}")) for text in COMMENTS]


def translated(code: str, language: Language) -> str:
    """The code with its comments in a language; a comment that no rule of this package writes stays as it is."""
    return language.chain("\n", (_line(line, language) for line in code.split("\n")))


def _line(line: str, language: Language) -> str:
    statement, *comments = line.split(_BEGIN)
    return language.chain(_BEGIN, (statement, *(_comment(comment, language) for comment in comments)))


def _comment(comment: str, language: Language) -> str:
    for text, begin, field, end in _PARTS:
        code = comment.removeprefix(begin).removesuffix(end)
        if comment == begin + code + end and bool(code) == bool(field):
            return language.text(text, code=code) if field else language.text(text)
    return comment
