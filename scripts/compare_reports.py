"""Compare the reports in two folders, to prove that a refactoring changed nothing.

python scripts/compare_reports.py BEFORE AFTER

Reads every `*.json` of both folders. The wording (`text` of a message) and the version of the program may differ;
everything else must be the same byte for byte. Prints each difference by file and place, and exits with 1 if there
is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MASK = "***"
_SHOWN = 20
"""Number of differences printed for one file."""
_MISSING = object()


def main(arguments: list[str] | None = None) -> int:
    """Print the differences of two folders; returns 1 if there are some, or nothing to compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder of reports of the one version")
    parser.add_argument("after", type=Path, help="folder of reports of the other version, with the same names")
    parser.add_argument("--texts", action="store_true", help="compare the wording, too")
    options = parser.parse_args(arguments)
    names = sorted({path.name for folder in (options.before, options.after) for path in folder.glob("*.json")})
    changed = [name for name in names if _print_differences(options, name)]
    print(f"{len(names)} reports, {len(changed)} of them differ")
    return 1 if changed or not names else 0


def _print_differences(options: argparse.Namespace, name: str) -> bool:
    found = list(of_files(options.before / name, options.after / name, texts=options.texts))
    for line in found[:_SHOWN]:
        print(f"{name}: {line}")
    if len(found) > _SHOWN:
        print(f"{name}: and {len(found) - _SHOWN} more")
    return bool(found)


def of_files(before: Path, after: Path, *, texts: bool = False) -> Iterator[str]:
    """Yield the differences of two reports, a line for each place."""
    absent = [path for path in (before, after) if not path.is_file()]
    if absent:
        yield f"is not in {absent[0].parent}"
        return
    documents = [json.loads(path.read_bytes()) for path in (before, after)]
    one, other = (masked(document, texts=texts) for document in documents)
    found = list(differences(one, other))
    yield from found
    if not found and _bytes(one) != _bytes(other):
        yield "is written differently: the order of keys, or numbers such as 1 and 1.0"


def masked(document: Any, *, texts: bool = False) -> Any:
    """A report without the version that wrote it and, unless `texts` count, without the wording of messages."""
    if isinstance(document, dict) and isinstance(document.get("generator"), dict):
        document = document | {"generator": document["generator"] | {"version": MASK}}
    return document if texts else _without_texts(document)


def _without_texts(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_texts(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        key: MASK if key == "text" and isinstance(child, str) else _without_texts(child) for key, child in node.items()
    }


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Yield each place at which two documents differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key, _MISSING), after.get(key, _MISSING), f"{place}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{place}: has {len(before)} items before, {len(after)} after"
        for index, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{place}[{index}]")
    elif before != after or type(before) is not type(after):
        yield f"{place}: {_brief(before)} before, {_brief(after)} after"


def _brief(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _bytes(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    sys.exit(main())
