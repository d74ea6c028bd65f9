"""What blocks hold, in scripted training steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.allocator.snapshots import MIB, recorded, snapshot
from tests.simulation.allocator.written import A, Written
from traceanalyzer.analyzers.memory.block_kinds import BlockKind, kinds_of, late_gradients
from traceanalyzer.structure.block_lifetimes import Lifetimes, lifetimes
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.table import U8

SETUP = "torch/nn/init.py:normal_ < model.py:__init__ < train.py:main"
FORWARD = "model.py:forward < /torch/nn/modules/module.py:_call_impl < train.py:main"
ENGINE = "??:torch::autograd::Engine::thread_main"
AGAIN = "model.py:forward < /torch/utils/checkpoint.py:backward < ??:torch::autograd::Engine::thread_main"
STEP = "/torch/optim/adamw.py:step < train.py:main"
ZERO = "/torch/optim/optimizer.py:zero_grad < train.py:main"
MAIN = "train.py:main"

P, G, S, ACTIVATIONS, T, U = (
    BlockKind.PARAMETERS,
    BlockKind.GRADIENTS,
    BlockKind.OPTIMIZER_STATE,
    BlockKind.ACTIVATIONS,
    BlockKind.TEMPORARY,
    BlockKind.UNKNOWN,
)


class Program(Written):
    """Blocks of one segment of 60 MiB, in slots of 2 MiB: a block is named by its slot."""

    def __init__(self) -> None:
        super().__init__()
        self.reserve(A, 60)

    def make(self, slot: int, at: str, mib: float = 2) -> None:
        """Allocate in a slot."""
        self.alloc(A + 2 * slot * MIB, mib, 2, at=at)

    def drop(self, *slots: int, at: str = "") -> None:
        """Free what is in slots."""
        for slot in slots:
            self.free(A + 2 * slot * MIB, at=at)

    def step(self, *, is_first: bool = False) -> None:
        """Slots: 1 and 2 activations, 3 temporary, 4 a gradient, 5 temporary, 6 and 7 states, 8 temporary, 9 data."""
        self.make(9, MAIN, 1.1)
        self.make(1, FORWARD)
        self.make(3, FORWARD)
        self.drop(3)
        self.make(2, FORWARD)
        self.make(5, ENGINE)
        self.drop(2)
        self.make(4, ENGINE)
        self.drop(1, 5)
        if is_first:
            self.make(6, STEP)
            self.make(7, STEP)
        self.make(8, STEP)
        self.drop(8)
        self.drop(9)
        self.drop(4, at=ZERO)

    def dump(self) -> MemorySnapshot:
        """As a snapshot."""
        segments = [{**one, "blocks": self._blocks(one)} for one in self.segments.values()]
        return snapshot({"segments": segments, "device_traces": [self.entries]})

    def late(self) -> list[tuple[int, int]]:
        """Rows of gradients that are freed late, with the entry at which the forward pass begins."""
        found = self.dump()
        blocks = lifetimes(found.devices[0])
        rows, entries = late_gradients(blocks, kinds_of(blocks, found.stacks), found.stacks)
        return list(zip(rows.tolist(), entries.tolist(), strict=True))

    def kinds(self) -> list[BlockKind]:
        """By the rows of the lifetimes."""
        found = self.dump()
        return [BlockKind(one) for one in kinds_of(lifetimes(found.devices[0]), found.stacks).tolist()]


def test_two_steps_from_the_start() -> None:
    """Data lives through the step: nothing shows what it is."""
    program = Program()
    program.make(0, SETUP)
    program.make(10, SETUP)
    program.drop(10)
    program.step(is_first=True)
    program.step()
    step = [U, ACTIVATIONS, T, ACTIVATIONS, T, G]
    assert program.kinds() == [P, T, *step, S, S, T, *step, T]


def test_a_ring_that_begins_with_the_second_step() -> None:
    """Parameters have no stack if recording began after the setup; the gradient has their size."""
    program = Program()
    program.make(0, "")
    program.step(is_first=True)
    lost = len(program.entries)
    program.step()
    program.lose(lost)
    assert program.kinds() == [P, S, S, U, ACTIVATIONS, T, ACTIVATIONS, T, G, T]


def test_weights_that_no_module_makes() -> None:
    """`torch.randn(..., device="cuda")` in a function of the program, and data of another size that stays as long."""
    program = Program()
    program.make(0, "train.py:make_weights < train.py:main")
    program.make(10, "train.py:load_data < train.py:main", 1.2)
    program.step(is_first=True)
    program.make(11, "train.py:evaluate < train.py:main")
    assert program.kinds()[:2] == [P, U]
    assert program.kinds()[-1] == U


@pytest.mark.parametrize(
    "at",
    [
        "train.py:make_weights < train.py:main",
        "/torch/serialization.py:_load < train.py:main",
        "/torch/nn/modules/module.py:convert < /torch/nn/modules/module.py:_apply < train.py:main",
        "/transformers/modeling_utils.py:from_pretrained < train.py:main",
        "/torch/nn/modules/module.py:load_state_dict < train.py:main",
        "model.py:__init__ < train.py:main",
    ],
)
@pytest.mark.parametrize("is_old", [True, False], ids=["lost", "kept"])
def test_weights_of_inference(at: str, *, is_old: bool) -> None:
    """No pass makes gradients; what other functions make, what is freed, and what comes later is no weight."""
    program = Program()
    program.make(0, at)
    program.make(10, "train.py:read_images < train.py:main")
    lost = len(program.entries)
    program.make(11, at)
    program.drop(11)
    program.make(1, FORWARD)
    program.make(2, FORWARD)
    program.drop(1, 2)
    program.make(12, "train.py:load_more_weights < train.py:main")
    program.lose(lost if is_old else 0)
    first, data, freed, *others = program.kinds()
    assert [first, data, *others] == [P, U, T, T, U]
    assert freed in (T, U)


def test_room_for_keys_and_values_is_no_weight() -> None:
    """Servers make it in the `__init__` of a class, as they make modules."""
    program = Program()
    program.make(0, "worker/cache_engine.py:_allocate_kv_cache < worker/cache_engine.py:__init__ < train.py:main")
    program.make(1, "/transformers/cache_utils.py:__init__ < train.py:load_model")
    program.make(2, "layers.py:__init__ < train.py:load_model")
    assert program.kinds() == [U, U, P]


def test_parameters_that_are_made_without_a_module() -> None:
    program = Program()
    program.make(0, "/torch/nn/parameter.py:__new__ < train.py:build < train.py:main")
    program.make(9, MAIN)
    assert program.kinds() == [P, U]


def test_a_ring_that_begins_in_the_backward_pass() -> None:
    """What it frees was saved for it; nothing else is known of a block without stack."""
    program = Program()
    program.make(0, "", 1.5)
    program.make(1, "")
    lost = len(program.entries)
    program.make(4, ENGINE)
    program.drop(1)
    program.make(5, ENGINE)
    program.drop(5)
    program.make(8, STEP)
    program.lose(lost)
    assert program.kinds() == [U, ACTIVATIONS, G, T, S]


def test_gradients_of_the_step_before() -> None:
    """They live on into the forward pass, where only their free shows what they were."""
    program = Program()
    program.make(4, ENGINE)
    program.make(1, FORWARD)
    program.drop(4, at=ZERO)
    program.make(5, ENGINE)
    program.lose(2)
    assert program.kinds() == [G, ACTIVATIONS, G]
    assert program.late() == [(0, 0)]


def test_gradients_that_are_freed_in_time() -> None:
    """Before the forward pass; those of the last step live at the dump."""
    program = Program()
    program.make(0, SETUP)
    program.step(is_first=True)
    program.step()
    assert program.late() == []


def test_gradients_that_the_next_backward_pass_adds_to() -> None:
    """Two forward and backward passes for one step: the first gradient is no late one, the second is."""
    program = Program()
    for slot in (1, 2):
        program.make(slot, FORWARD)
        program.make(slot + 3, ENGINE)
        program.drop(slot)
    program.make(8, STEP)
    program.drop(8)
    first_forward = len(program.entries)
    program.make(1, FORWARD)
    program.drop(4, 5, at=ZERO)
    assert program.kinds() == [ACTIVATIONS, G, ACTIVATIONS, G, T, ACTIVATIONS]
    assert program.late() == [(3, first_forward)]


def test_stacks_of_python_alone() -> None:
    """Autograd's threads have none; without any stack nothing is known."""
    program, without = Program(), Program()
    for one, forward, step in ((program, FORWARD, STEP), (without, "", "")):
        one.make(1, forward)
        one.make(4, "")
        one.drop(1)
        one.make(8, step)
    assert program.kinds() == [ACTIVATIONS, G, S]
    assert without.kinds() == [T, U, U]


def test_activations_that_are_computed_again() -> None:
    """They live in the backward pass; what is freed before other things go on is temporary."""
    program = Program()
    program.make(1, FORWARD)
    program.make(4, ENGINE)
    program.make(2, AGAIN)
    program.make(3, AGAIN)
    program.make(7, AGAIN)
    program.drop(3)
    program.make(5, ENGINE)
    program.drop(2, 5, 7, 1)
    program.make(8, STEP)
    program.drop(8)
    assert program.kinds() == [ACTIVATIONS, G, ACTIVATIONS, T, ACTIVATIONS, T, T]


def test_out_of_memory_in_the_forward_pass() -> None:
    """What the forward pass still holds are activations, although no backward pass was seen."""
    program = Program()
    program.make(0, SETUP)
    program.make(1, FORWARD)
    program.make(2, FORWARD)
    program.make(3, FORWARD)
    program.drop(2)
    program.fail(100, 10, at=FORWARD)
    assert program.kinds() == [P, ACTIVATIONS, T, ACTIVATIONS]


def test_states_have_the_size_of_parameters() -> None:
    """Where gradients are gone; a block of another size stays unknown."""
    program = Program()
    program.make(0, "")
    program.make(1, "", 1.5)
    program.make(6, STEP)
    program.lose(3)
    program.make(8, STEP)
    program.drop(8)
    assert program.kinds() == [P, U, S, T]


def bytes_by_kind(blocks: Lifetimes, kinds: U8, entry: int) -> dict[BlockKind, int]:
    """Requested bytes of the blocks that live after an entry; kinds without any are left out."""
    rows = blocks.alive_at(entry)
    found = {kind: int(blocks.requested[rows[kinds[rows] == kind]].sum()) for kind in BlockKind}
    return {kind: size for kind, size in found.items() if size}


@pytest.mark.corpus
def test_the_peak_of_a_recorded_step(corpus: Path) -> None:
    """AdamW in fp32: two states and one gradient of the size of the parameters, and next to nothing is unknown."""
    found = recorded(corpus / "field" / "memory" / "cs336_nh_full.pickle")
    expected = json.loads((corpus / "expected" / "memory" / "cs336_nh_full.json").read_text("utf-8"))[0]
    blocks = lifetimes(found.devices[0])
    kinds = kinds_of(blocks, found.stacks)
    peak = bytes_by_kind(blocks, kinds, expected["peak_entry"])
    assert sum(peak.values()) == expected["peak_requested_bytes"]
    assert peak[S] == 2 * peak[P]
    assert peak[G] == pytest.approx(peak[P], rel=0.01)
    assert peak[U] < 0.01 * expected["peak_requested_bytes"]
    assert peak[ACTIVATIONS] > peak[P]
    rows, entries = late_gradients(blocks, kinds, found.stacks)
    assert int(blocks.requested[rows].sum()) == peak[P]
    assert set(entries.tolist()) == {0}
