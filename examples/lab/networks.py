"""Networks of the lab: the usual one, and pairs of which one holds a fault. Input: images; output: ten classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from examples.lab.training import Size

_PATCH = 4
"""Pixels of a patch, each way."""


def convolutions(size: Size, *, bias: bool = False) -> nn.Module:
    """Two convolutions with batch norm, a mean, and a classifier."""

    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias), nn.BatchNorm2d(outputs), nn.ReLU())

    width = size.width
    return nn.Sequential(block(3, width), block(width, width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), _head(width))


def convolutions_with_bias(size: Size) -> nn.Module:
    """Fault: batch norm takes the bias away again."""
    return convolutions(size, bias=True)


def wide(size: Size) -> nn.Module:
    """Large matrix products and little else."""
    inner = 64 * size.width
    body = [layer for _ in range(4) for layer in (nn.Linear(inner, inner), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * size.side**2, inner), *body, _head(inner))


def deep(size: Size) -> nn.Module:
    """Many small layers, so many parameters."""
    body = [layer for _ in range(60) for layer in (nn.Linear(size.width, size.width), nn.LayerNorm(size.width))]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * size.side**2, size.width), *body, _head(size.width))


class Product(nn.Module):
    """A matrix product behind a first layer."""

    def __init__(self, size: Size, *, broadcasts: bool) -> None:
        super().__init__()
        self.broadcasts = broadcasts
        self.first = nn.Linear(3 * size.side**2, 8 * size.width)
        self.weight = nn.Parameter(torch.randn(8 * size.width, 8 * size.width) / size.width)
        self.head = _head(8 * size.width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits. Fault: every product of two numbers is written to memory before they are summed up."""
        x = self.first(images.flatten(1))
        if self.broadcasts:
            return self.head((x[:, :, None] * self.weight[None]).sum(1))
        return self.head(x @ self.weight)


class Attention(nn.Module):
    """Attention over the patches of an image."""

    def __init__(self, size: Size, *, fused: bool) -> None:
        super().__init__()
        self.fused, self.heads = fused, 4
        self.embed = nn.Conv2d(3, size.width, _PATCH, stride=_PATCH)
        self.inputs, self.head = nn.Linear(size.width, 3 * size.width), _head(size.width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits. Fault: the scores are written to memory."""
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.inputs(tokens).chunk(3, -1))
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            mixed = scores.softmax(-1) @ v
        return self.head(mixed.transpose(1, 2).flatten(2).mean(1))


class Copies(nn.Module):
    """A bias per channel, and a norm over channels."""

    def __init__(self, size: Size, *, copies: bool) -> None:
        super().__init__()
        self.copies = copies
        self.first, self.head = nn.Conv2d(3, size.width, 3, padding=1), _head(size.width)
        self.bias, self.norm = nn.Parameter(torch.zeros(1, size.width, 1, 1)), nn.LayerNorm(size.width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits. Fault: the bias is repeated and every order of axes is written to memory."""
        x = self.first(images)
        if self.copies:
            x = x + self.bias.repeat(x.shape[0], 1, *x.shape[2:])
            x = self.norm(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()
            return self.head(x.flatten(2).permute(2, 0, 1).contiguous().mean(0))
        x = self.norm((x + self.bias).permute(0, 2, 3, 1))
        return self.head(x.mean((1, 2)))


class Rows(nn.Module):
    """Each row of pixels is scaled by a number of its own."""

    def __init__(self, size: Size, *, loops: bool) -> None:
        super().__init__()
        self.loops = loops
        self.scale = nn.Parameter(torch.ones(4 * size.side))
        self.head = _head(3 * size.side**2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits. Fault: a loop with tiny operators."""
        scale = self.scale.view(4, -1).mean(0)
        if self.loops:
            rows = [images[:, :, row] * scale[row] + 0.1 for row in range(images.shape[2])]
            x = torch.stack(rows, 2)
        else:
            x = images * scale[:, None] + 0.1
        return self.head(x.flatten(1))


def _head(features: int) -> nn.Linear:
    return nn.Linear(features, 10)
