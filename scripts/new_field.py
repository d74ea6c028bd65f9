"""Read another argument of events: its column in `trace/tables.py`, and a test with a small trace.

    python scripts/new_field.py device "warps per SM" warps_per_sm f8 "warps over multiprocessors"

Arguments: the table (a field of `Trace`), the argument as the trace format names it, the name of the column, its type
(i8 or i4 for integers, f8 for other numbers), its meaning without a full stop, and its unit if it has one. Both ways of
reading know the argument from then on. Nothing else is edited by hand; columns of texts also name their pool.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = "traceanalyzer/trace/tables.py"
TEST = "tests/readers/kineto/test_fields.py"

_ANNOTATIONS = {"i8": "I64", "i4": "I32", "f8": "F64"}


def row(key: str, column: str, dtype: str, meaning: str, unit: str = "") -> str:
    """The declaration of a column."""
    absent = "NaN" if dtype == "f8" else "-1"
    texts = (dtype, unit, f"{meaning}; {absent} where absent", key)
    one_line = f"    {column}: {_ANNOTATIONS[dtype]} = column({', '.join(map(_quoted, texts))})\n"
    return (
        one_line
        if len(one_line) <= 121
        else one_line.replace("column(", "column(\n        ").replace(")\n", "\n    )\n")
    )


def test(table: str, key: str, column: str, dtype: str) -> str:
    """A test of values that are a number, a number as text, no number, and missing."""
    none = 'float("nan")' if dtype == "f8" else "-1"
    values = "[8.5, 8.5, " if dtype == "f8" else "[8, 8, "
    given = '8.5, "8.5"' if dtype == "f8" else '8, "8"'
    return f'''

def test_{column}_of_{table}() -> None:
    """TODO: values as a real trace has them."""
    found = column_of("{table}", {_quoted(column)}, {_quoted(key)}, {given}, "?", None)
    assert found == pytest.approx({values}{none}, {none}], nan_ok=True)
'''


def with_row(tables: str, table: str, declared: str) -> str:
    """The text of `trace/tables.py` with one column more at the end of a table."""
    from traceanalyzer.readers.kineto import fields  # noqa: PLC0415 - after the usage, in a checkout

    (name,) = (t.table.__name__ for t in fields.TABLES.values() if t.name == table)
    at = tables.index(f"class {name}(")
    end = tables.find("\n\n\n", at)
    end = len(tables) if end < 0 else end + 1
    return tables[:end] + declared + tables[end:]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    """Edit the two files."""
    given = sys.argv[1:]
    if len(given) not in (5, 6) or not re.fullmatch(r"[a-z][a-z0-9_]*", given[2]) or given[3] not in _ANNOTATIONS:
        print(__doc__)
        return 2
    sys.path.insert(0, str(ROOT))
    table, key, column, dtype, *meaning = given
    tables, tests = (ROOT / TABLES).read_text("utf-8"), (ROOT / TEST).read_text("utf-8")
    (ROOT / TABLES).write_text(with_row(tables, table, row(key, column, dtype, *meaning)), "utf-8")
    (ROOT / TEST).write_text(tests + test(table, key, column, dtype), "utf-8")
    print(f"edited {TABLES}\nedited {TEST}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
