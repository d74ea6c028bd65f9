"""A plugin of mypy: the package adds floats with `math.fsum`, never with `sum`.

The same input gives the same bytes in every version of Python and in every order of reading. But `sum` of floats
depends on their order, and compensates for rounding only from Python 3.12 on; `math.fsum` is exact.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.maptype import map_instance_to_supertype
from mypy.plugin import FunctionContext, Plugin
from mypy.typeops import tuple_fallback
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    ProperType,
    TupleType,
    Type,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

MESSAGE = "sum of {}: only integers have the same sum everywhere; use math.fsum"

_ARRAY = "numpy.ndarray"
"""Arrays are added in the same way everywhere, one to the next."""


class ExactSums(Plugin):
    """Reports calls of `sum` whose terms are not known to be integers."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The check of a call, if it is one of `sum`."""
        return _check if fullname == "builtins.sum" else None


def _check(call: FunctionContext) -> Type:
    summed = get_proper_type(call.api.get_expression_type(call.args[0][0]))  # by itself, whatever `sum` expects
    terms = _terms(summed, call)
    if not _are_whole(terms):
        call.api.fail(MESSAGE.format(terms), call.context)
    return call.default_return_type


def _terms(summed: ProperType, call: FunctionContext) -> ProperType:
    """Type of what is added; that of the whole, which is no integer, where nothing is known of its terms."""
    values = tuple_fallback(summed) if isinstance(summed, TupleType) else summed
    iterable = call.api.named_generic_type("typing.Iterable", [AnyType(TypeOfAny.special_form)]).type
    if isinstance(values, Instance) and values.type.has_base(iterable.fullname):
        return get_proper_type(map_instance_to_supertype(values, iterable).args[0])
    return summed


def _are_whole(terms: ProperType) -> bool:
    if isinstance(terms, UnionType):
        return all(_are_whole(get_proper_type(item)) for item in terms.items)
    of = terms.fallback if isinstance(terms, LiteralType) else terms
    return isinstance(of, Instance) and (of.type.has_base("builtins.int") or of.type.fullname == _ARRAY)


def plugin(version: str) -> type[Plugin]:
    """The class that mypy asks for."""
    return ExactSums
