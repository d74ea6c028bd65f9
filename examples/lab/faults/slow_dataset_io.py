"""Each sample is a compressed file; workers read and unpack in parallel with the training."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path

import torch

from examples.lab.parts import CLASSES, Images, Program, Setup, train_from

_FILES = 64


class Files(Images):
    """Read and unpack the file of a sample."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        super().__init__(setup)
        self._paths = [folder / f"{number}.z" for number in range(_FILES)]
        shape = (3, 4 * self.side, 4 * self.side)
        for path in self._paths:
            path.write_bytes(zlib.compress(torch.randint(256, shape, dtype=torch.uint8).numpy().tobytes(), 1))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        data = bytearray(zlib.decompress(self._paths[index % _FILES].read_bytes()))
        image = torch.frombuffer(data, dtype=torch.uint8).view(3, 4 * self.side, 4 * self.side)
        return image[:, ::4, ::4] / 255, index % CLASSES


def before(setup: Setup) -> Program:
    """Load in the main process."""
    with tempfile.TemporaryDirectory() as folder:
        yield from train_from(setup, Files(setup, Path(folder)))


def after(setup: Setup) -> Program:
    """Load in workers."""
    with tempfile.TemporaryDirectory() as folder:
        files = Files(setup, Path(folder))
        yield from train_from(setup, files, num_workers=setup.workers, persistent_workers=True)
