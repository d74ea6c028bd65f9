"""What a schema no longer allows that an earlier one did: within a version of the schema, fields are only added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_Schema = dict[str, Any]
_TEXTS = {"title", "description", "$schema", "$defs"}
_KNOWN = _TEXTS | {
    "$ref",
    "additionalProperties",
    "anyOf",
    "default",
    "items",
    "maxItems",
    "minItems",
    "prefixItems",
    "properties",
    "required",
    "type",
}


def narrowed(old: _Schema, new: _Schema) -> list[str]:
    """What was removed or narrowed, by its path from the root; names of definitions do not matter."""
    return list(_Comparison(old, new).differences(old, new, "", frozenset()))


class _Comparison:
    def __init__(self, old: _Schema, new: _Schema) -> None:
        self._old = old.get("$defs", {})
        self._new = new.get("$defs", {})

    def differences(self, old: _Schema, new: _Schema, path: str, above: frozenset[tuple[str, str]]) -> Iterator[str]:
        """Compare two schemas of the same place; `above` are the pairs of definitions that hold them."""
        pair = (old.get("$ref", ""), new.get("$ref", ""))
        if all(pair) and pair in above:
            return
        above |= {pair}
        old, new = _followed(old, self._old), _followed(new, self._new)
        if strange := (old.keys() | new.keys()) - _KNOWN:
            yield f"{path}: nothing here compares {', '.join(sorted(strange))}"
        elif "anyOf" in old or "anyOf" in new:
            yield from self._alternatives(old, new, path, above)
        else:
            yield from self._plain(old, new, path, above)

    def _alternatives(self, old: _Schema, new: _Schema, path: str, above: frozenset[tuple[str, str]]) -> Iterator[str]:
        """Each alternative of before is still one."""
        for one in old.get("anyOf", [old]):
            choices = [list(self.differences(one, other, path, above)) for other in new.get("anyOf", [new])]
            yield from min(choices, key=len)

    def _plain(self, old: _Schema, new: _Schema, path: str, above: frozenset[tuple[str, str]]) -> Iterator[str]:
        if not _types(old) <= _types(new):
            yield f"{path}: was {old.get('type', 'anything')}, is {new.get('type')}"
            return
        yield from self._object(old, new, path, above)
        yield from self._array(old, new, path, above)
        if "default" in old and "default" in new and old["default"] != new["default"]:
            yield f"{path}: without a value it was {old['default']!r}, is {new['default']!r}"

    def _object(self, old: _Schema, new: _Schema, path: str, above: frozenset[tuple[str, str]]) -> Iterator[str]:
        for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
            yield f"{path}/{name}: is required, and was not"
        for name, value in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{path}/{name}: was removed"
            else:
                yield from self.differences(value, new["properties"][name], f"{path}/{name}", above)
        yield from self._open(old, new, "additionalProperties", f"{path}/*", above)

    def _array(self, old: _Schema, new: _Schema, path: str, above: frozenset[tuple[str, str]]) -> Iterator[str]:
        if new.get("minItems", 0) > old.get("minItems", 0):
            yield f"{path}: has at least {new['minItems']} items, not {old.get('minItems', 0)}"
        if new.get("maxItems", float("inf")) < old.get("maxItems", float("inf")):
            yield f"{path}: has at most {new['maxItems']} items"
        before, after = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(before) != len(after):
            yield f"{path}: had {len(before)} places, has {len(after)}"
        for number, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from self.differences(one, other, f"{path}/{number}", above)
        yield from self._open(old, new, "items", f"{path}/*", above)

    def _open(
        self, old: _Schema, new: _Schema, key: str, path: str, above: frozenset[tuple[str, str]]
    ) -> Iterator[str]:
        """What else may stand in an object or array: nothing (false), anything (true or absent), or a schema."""
        one, other = old.get(key, True), new.get(key, True)
        if other is True or one is False:
            return
        if other is False or one is True:
            yield f"{path}: what else there may be was limited"
        else:
            yield from self.differences(one, other, path, above)


def _followed(schema: _Schema, definitions: dict[str, _Schema]) -> _Schema:
    while "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]] | rest
    return schema


def _types(schema: _Schema) -> set[str]:
    """Types that are allowed; a whole number is a number."""
    every = {"object", "array", "string", "number", "integer", "boolean", "null"}
    found = schema.get("type", every)
    named = {found} if isinstance(found, str) else set(found)
    return named | {"integer"} if "number" in named else named
