"""Which part of a training program a stack belongs to, by the names of functions and files.

Stacks of the allocator have frames of Python, and with `stacks="all"` those of C++. The threads of autograd's engine
have no frames of Python, except for backward functions that are written in it and for what is computed again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from traceanalyzer.knowledge import python_frames

Frames = Sequence[tuple[str, int, str]]
"""File, line and function of each frame, innermost first."""


class AllocationPlace(IntEnum):
    """A part of a program that allocates memory."""

    UNKNOWN = 0
    """No stack was recorded."""
    OTHER = 1
    """A stack without any of these parts."""
    SETUP = 2
    """Modules are made, loaded or moved."""
    FORWARD = 3
    BACKWARD = 4
    OPTIMIZER = 5


_NN = r"[/\\]torch[/\\]nn[/\\]"
_BACKWARD = re.compile(r"torch::autograd::(?:python::Python)?Engine::|:(?:_engine_run_)?backward$")
_OPTIMIZER = re.compile(  # from the last `optim` of a file's name on, so that each character is read once
    r"optim(?:[^/\\o]|o(?!ptim))*\.py:(?!<module>|main$)|[/\\]optim(?:izers?)?[/\\][^/\\]*\.py:|:_init_group$"
)
_FORWARD = re.compile(rf":forward$|{_NN}(?:modules[/\\]module\.py:_call_impl$|functional\.py:)")
_SETUP = re.compile(
    rf"{_NN}(?:init|parameter)\.py:|{_NN}modules[/\\]\w+\.py:(?:_apply|reset_parameters|_load_from_state_dict)$"
    r"|:(?:from_pretrained|load_state_dict|__init__|init_weights|_init_weights)$"
)
_LOADS = re.compile(
    r"[/\\](?:torch[/\\]serialization\.py|safetensors[/\\]\w+\.py):"
    r"|:(?:build|create|get|init|initialize|load|make|prepare|setup)_(?:\w+_)?"
    r"(?:checkpoint|model|params|parameters|state_dict|weights)$"
)
_CACHES = re.compile(r"(?i:kv_?cache|cache_engine|[/\\]cache_utils\w*\.py:)")
"""Frames that make room for keys and values of attention, which classes do when they are made."""
_RUNNING = (
    (AllocationPlace.BACKWARD, _BACKWARD),
    (AllocationPlace.OPTIMIZER, _OPTIMIZER),
    (AllocationPlace.FORWARD, _FORWARD),
)
"""Parts, and the frames (`file:function`) that show them; own choice after stacks of real snapshots."""
_FREES_SAVED = re.compile(r"release_variables|SavedVariable|Backward0::~|deleteNode")
_CELL = ("<ipython-input", "<stdin>", "<cell ")
"""How files begin that are no files: cells of notebooks, and lines that were typed."""


def line_of(frames: Frames) -> str | None:
    """The innermost line of the program, as `train.py(12): step`; None if the stack has none."""
    return next((f"{file}({line}): {function}" for file, line, function in frames if is_own(file)), None)


def place_of(frames: Frames) -> AllocationPlace:
    """The part of the innermost frame that shows one; what is made while a step runs is no setup."""
    shown = [_place_of_frame(file, function) for file, _, function in frames]
    running = next((place for place in shown if place > AllocationPlace.SETUP), None)
    found = running or max(shown, default=AllocationPlace.UNKNOWN)
    is_cache = found is AllocationPlace.SETUP and any(_CACHES.search(f"{file}:{name}") for file, _, name in frames)
    return AllocationPlace.OTHER if is_cache else found


def loads_model(frames: Frames) -> bool:
    """Whether a function of the program that makes or reads a model allocates, by its name, and no cache."""
    named = [f"{file}:{function}" for file, _, function in frames]
    return any(map(_LOADS.search, named)) and not any(map(_CACHES.search, named))


def is_within_backward(frames: Frames) -> bool:
    """Whether the backward pass runs, which may compute activations again."""
    return any(_is_backward(file, function) for file, _, function in frames)


def frees_saved(frames: Frames) -> bool:
    """Whether autograd frees what it saved, after the backward pass or with the graph."""
    return any(_FREES_SAVED.search(function) for _, _, function in frames)


def frees_gradients(frames: Frames) -> bool:
    """Whether the program gives up its gradients before the next backward pass."""
    return any(function == "zero_grad" for _, _, function in frames)


def has_native_frames(frames: Frames) -> bool:
    """Whether a stack has frames of C++, which are recorded only with `stacks="all"`."""
    return any("::" in function or file == "??" for file, _, function in frames)


@lru_cache(1 << 14)
def _place_of_frame(file: str, function: str) -> AllocationPlace:
    text = f"{file}:{function}"
    for place, pattern in (*_RUNNING, (AllocationPlace.SETUP, _SETUP)):
        if pattern.search(text):
            return place
    return AllocationPlace.OTHER


@lru_cache(1 << 14)
def _is_backward(file: str, function: str) -> bool:
    return _BACKWARD.search(f"{file}:{function}") is not None


@lru_cache(1 << 14)
def is_own(file: str) -> bool:
    """Whether a frame is one of Python, not of what runs below it, and of the program."""
    return is_python(file) and python_frames.is_own_file(file)


def is_python(file: str) -> bool:
    """Whether a frame is one of Python, not of what runs below it."""
    return file.endswith(".py") or file.startswith(_CELL)
