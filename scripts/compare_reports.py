"""Compare what two versions wrote into two folders, to prove that a refactoring changed nothing.

python scripts/compare_reports.py BEFORE AFTER

Every file of both folders is compared, at any depth:

* JSON by its values and the order of its keys. The wording (`text` of a message) and the layout may differ, unless
  --texts is given.
* A spreadsheet (.xlsx) by its members, because the file around them holds the version in a compressed form.
* Every other file byte for byte, its wording included.

The version of this program may differ everywhere. Prints each difference of a JSON file with its place, and the first
one of every other file; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

MASK = "***"
_SHOWN = 20
"""Number of differences printed for one file."""
_LONGEST = 100
"""Number of characters printed of a value or line."""
_AROUND = 40
"""Number of them before the difference."""
_MISSING = object()
_VERSION = re.compile(
    rb'(traceanalyzer(?: \w+)?[ @]|"semanticVersion":\s*"|"name":\s*"traceanalyzer",\s*"version":\s*")\d[\w.+-]*'
)
"""The version of this program as each format writes it, after words that are kept."""
_MASKED = rb"\1" + MASK.encode()


def main(arguments: list[str] | None = None) -> int:
    """Print the differences of two folders; returns 1 if there are some, or nothing to compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder of what the one version wrote")
    parser.add_argument("after", type=Path, help="folder of what the other version wrote, with the same names")
    parser.add_argument("--texts", action="store_true", help="compare the wording and the layout of JSON, too")
    options = parser.parse_args(arguments)
    names = sorted({name for folder in (options.before, options.after) for name in _names(folder)})
    changed = [name for name in names if _print_differences(options, name)]
    print(f"{len(names)} files, {len(changed)} of them differ")
    return 1 if changed or not names else 0


def _names(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _print_differences(options: argparse.Namespace, name: str) -> bool:
    absent = [folder for folder in (options.before, options.after) if not (folder / name).is_file()]
    if absent:
        found = [f"is not in {absent[0]}"]
    else:
        found = list(of_files(options.before / name, options.after / name, texts=options.texts))
    for line in found[:_SHOWN]:
        print(f"{name}: {line}")
    if len(found) > _SHOWN:
        print(f"{name}: and {len(found) - _SHOWN} more")
    return bool(found)


def of_files(before: Path, after: Path, *, texts: bool = False) -> Iterator[str]:
    """Yield the differences of two files of one format, a line for each place."""
    if before.suffix == ".xlsx" and zipfile.is_zipfile(before) and zipfile.is_zipfile(after):
        yield from _of_members(before, after)
        return
    one, other = (_VERSION.sub(_MASKED, path.read_bytes()) for path in (before, after))
    if one == other:
        return
    try:
        documents = [json.loads(content) for content in (one, other)] if before.suffix == ".json" else None
    except ValueError:
        documents = None
    if documents is None:
        yield first_difference(one, other)
    else:
        yield from _of_documents(*documents, texts=texts)


def _of_documents(before: Any, after: Any, *, texts: bool) -> Iterator[str]:
    one, other = (masked(document, texts=texts) for document in (before, after))
    found = list(differences(one, other))
    yield from found
    if not found and (texts or _bytes(one) != _bytes(other)):
        yield "is written differently: the order of keys, spaces between them, or numbers such as 1 and 1.0"


def _of_members(before: Path, after: Path) -> Iterator[str]:
    with zipfile.ZipFile(before) as one, zipfile.ZipFile(after) as other:
        names = one.namelist(), other.namelist()
        for name in dict.fromkeys((*names[0], *names[1])):
            if name not in names[0] or name not in names[1]:
                yield f"{name}: is not in the one {'after' if name in names[0] else 'before'}"
                continue
            contents = [_VERSION.sub(_MASKED, file.read(name)) for file in (one, other)]
            if contents[0] != contents[1]:
                yield f"{name}: {first_difference(*contents)}"
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
        yield "has its members in another order"


def first_difference(before: bytes, after: bytes) -> str:
    """Where two different contents begin to differ: line and both texts, or of other data the byte."""
    try:
        texts = [content.decode() for content in (before, after)]
    except UnicodeDecodeError:
        texts = []
    if not texts or any("\0" in text for text in texts):
        same = _same_start(before, after)
        return f"differs from byte {same} on; {len(before)} bytes before, {len(after)} after"
    pairs = enumerate(zip_longest(*(text.splitlines(keepends=True) for text in texts)), 1)
    number, (one, other) = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    cut = max(0, _same_start(one or "", other or "") - _AROUND)
    one, other = (line if line is None or not cut else f"...{line[cut:]}" for line in (one, other))
    sides = [_brief(_MISSING if line is None else line) for line in (one, other)]
    return f"line {number}: {sides[0]} before, {sides[1]} after"


def _same_start(one: bytes | str, other: bytes | str) -> int:
    """How many bytes or characters at the start of both are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


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
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _bytes(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    sys.exit(main())
