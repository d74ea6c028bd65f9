"""More damaged files: too big, or too many, to be committed. Made when a test asks for them."""

from __future__ import annotations

from .damage import clean, edit, text
from .layout import LAYOUTS
from .malformed import Malformed, unusable
from .values import Raw


def oversized() -> tuple[Malformed, ...]:
    """Files too big to commit."""
    deep = "[" * 100_000
    nested = edit('"blocks per SM": 0.500000', f'"blocks per SM": {deep}{"]" * len(deep)}')
    endless = text().removesuffix(b"\n  ]\n}\n") + b',\n  {\n    "ph": "X", "cat": "cpu_op", "name": "'
    return (
        unusable("deep_nesting.json", "100,000 opening brackets", deep.encode()),
        Malformed("deep_args.json", "100,000 levels in the args of one event", nested, 5, 1),
        Malformed("endless_string.json", "20 MB of a name that never ends", endless + b"x" * 20_000_000, 6, 1),
    )


_ANYWHERE = {
    "broken": ("dur", "", 5, 1),
    "nan": ("dur", "NaN", 6, 0),
    "quoted": ("name", '"fn.py(3): <lambda "a"> call"', 6, 0),
    "path": ("name", r'"pkg\modules\linear.py(114): forward"', 6, 0),
    "newline": ("name", '"two\nlines"', 6, 0),
}


def in_every_layout() -> tuple[Malformed, ...]:
    """The commonest kinds of damage to the second event, in every layout."""
    files = []
    for layout, how in LAYOUTS.items():
        for kind, (key, raw, readable, lost) in _ANYWHERE.items():
            trace = clean()
            trace.events[1][key] = Raw(raw)
            wrong = f"{key} is {raw!r} in layout {layout}"
            files.append(Malformed(f"{kind}-{layout}.json", wrong, trace.to_bytes(how), readable, lost))
    return tuple(files)
