"""Trees of calls, as pyinstrument prints them."""

from __future__ import annotations

import pytest

from tests.readers.forms import examples
from tests.readers.forms.test_forms import headlines, run_of


def test_functions_have_their_own_times_where_they_are_printed() -> None:
    run = run_of(examples.PYINSTRUMENT)
    assert (run.tool, run.cpu_ns) == ("pyinstrument", 10_000_000_000)
    assert {part.name: (part.self_ns, part.time_ns) for part in run.parts} == {
        "train.py:1(<module>)": (None, 10_000_000_000),
        "train.py:6(train)": (None, 9_900_000_000),
        "prepare.py:4(collate)": (6_400_000_000, 7_400_000_000),
        "<built-in>(sorted)": (1_000_000_000, 1_000_000_000),
        "torch/nn/modules/module.py:1751(Net._wrapped_call_impl)": (None, 2_500_000_000),
        "model.py:9(Net.forward)": (2_400_000_000, 2_400_000_000),
    }
    (said,) = headlines(examples.PYINSTRUMENT)
    assert said == (
        "Of 10 s, according to pyinstrument: `prepare.py:4(collate)` 6.4 s, `model.py:9(Net.forward)` 2.4 s, "
        "`<built-in>(sorted)` 1.0 s."
    )


def ascii_only(text: str) -> str:
    """As it prints with unicode=False."""
    return text.replace("├─", "|-").replace("└─", "`-").replace("│", "|")


def in_shares(text: str) -> str:
    """As it prints with time="percent_of_total"."""
    for time in ("10.000 <", "9.900", "7.000", "6.000", "1.000 s", "2.500", "2.400", "0.400"):
        number, _, rest = time.partition(" ")
        text = text.replace(f" {time}", f" {float(number) * 10:.1f}% {rest}".rstrip())
    return text.replace("\n10.000 <", "\n100.0% <")


@pytest.mark.parametrize("change", [ascii_only, in_shares])
def test_other_ways_to_print_a_tree_say_the_same(change: object) -> None:
    assert callable(change)
    assert run_of(change(examples.PYINSTRUMENT)).parts == run_of(examples.PYINSTRUMENT).parts


def test_a_function_within_itself_counts_once() -> None:
    text = examples.PYINSTRUMENT.replace("1.000 sorted  <built-in>", "1.000 collate  prepare.py:4")
    (own,) = (part for part in run_of(text).parts if "collate" in part.name)
    assert own.time_ns == 7_400_000_000


def test_waits_for_batches_are_found_in_a_tree() -> None:
    text = examples.PYINSTRUMENT.replace(
        "7.000 collate  prepare.py:4", "7.000 _SingleProcessDataLoaderIter.__next__  torch/utils/data/dataloader.py:732"
    )
    assert headlines(text) == ["Waiting for data: 7.0 of the 10.0 s, according to pyinstrument."]
