"""Batch norms after convolutions, in inference and in training."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.situations.conv_bias_before_batchnorm import TRAINING, network, printed


def fires() -> TraceBuilder:
    """Inference: the batch norm takes 0.6 of 5 ms, adding the bias 0.5."""
    return network()


def fires_without_a_bias() -> TraceBuilder:
    """The folded bias may need a kernel of its own."""
    return network(bias_us=None)


def fires_in_a_table() -> str:
    """Kernels of batch norms for inference."""
    return printed(additions=30)


def quiet() -> TraceBuilder:
    """Training: the batch norm computes statistics."""
    return network(norm=TRAINING, backward=True)


def quiet_in_a_table() -> str:
    """A printed table of a training."""
    return printed(additions=30, norm_kernel=TRAINING, backward=True)


def trap_evaluation_within_training() -> TraceBuilder:
    """Statistics are fixed, but a backward pass follows."""
    return network(backward=True)


def trap_norm_before_the_convolution() -> TraceBuilder:
    """It cannot be folded into the next convolution, because the activation is between them."""
    return network(swapped=True)


def trap_shared_norms_in_a_table() -> str:
    """More norms than convolutions: which belong together is not known."""
    return printed(additions=10, norms=40)
