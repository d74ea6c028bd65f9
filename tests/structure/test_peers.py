"""Calls of equal size."""

from __future__ import annotations

from traceanalyzer.structure.operator_times import Priced, peers


def test_the_cheapest_of_a_size_is_the_peer_of_all_others() -> None:
    dear, cheap = Priced("large", "[[2]]", 10, 1000), Priced("large", "[[1, 2]]", 5, 100)
    other = Priced("small", "[[1]]", 1, 7)
    first, *rest = peers([dear, cheap, other])
    assert first is not None
    assert (first.input_shapes, first.device_ns_per_call, first.saving_ns) == ("[[1, 2]]", 20, 800)
    assert rest == [None, None]


def test_unknown_sizes_and_calls_without_device_time_are_no_peers() -> None:
    assert peers([Priced(None, "a", 1, 100), Priced(None, "b", 1, 10)]) == [None, None]
    assert peers([Priced("x", "a", 1, 100), Priced("x", "b", 1, 0)]) == [None, None]
