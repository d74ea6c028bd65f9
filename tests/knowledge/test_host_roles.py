"""What the work of the host is for, by names; beside each role are names that only look like it."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge import host_roles

FRAMES = (
    ("transformers/models/videomae/image_processing_videomae.py(235): preprocess", "preprocessing"),
    ("transformers/models/owlv2/image_processing_owlv2.py(503): post_process_object_detection", "postprocessing"),
    ("data.py(3): preprocess_images", "preprocessing"),
    ("diffusers/image_processor.py(220): numpy_to_pil", "postprocessing"),
    ("diffusers/image_processor.py(173): pt_to_numpy", "postprocessing"),
    ("transformers/models/sam/image_processing_sam.py(9): post_process_masks", "postprocessing"),
    ("app.py(3): from_pt_to_numpy_and_back", None),
    ("transformers/masking_utils.py(3): _preprocess_mask_arguments", None),
    ("train.py(3): my_collate_fn", "preprocessing"),
    ("torchvision/transforms/functional.py(30): resize", "preprocessing"),
    ("PIL\\Image.py(30): open", "preprocessing"),
    ("model.py(3): transform", None),
    ("nn.Module: RandomHorizontalFlip_0", "preprocessing"),
    ("nn.Module: Linear_0", None),
    ("transformers/tokenization_utils_base.py(2892): _call_one", "tokenization"),
    ("serve.py(2): detokenize", "tokenization"),
    ("vllm/v1/sample/sampler.py(30): sample", "sampling"),
    ("transformers/generation/utils.py(3000): _sample", None),
    ("torch/utils/data/sampler.py(30): __iter__", None),
    ("torch/nn/parallel/distributed.py(1900): _sync_buffers", "buffer-broadcast"),
    ("torch/nn/parallel/distributed.py(1500): forward", None),
    ("torch/serialization.py(800): save", "checkpointing"),
    ("torch/utils/checkpoint.py(400): checkpoint", None),
    ("torch/utils/tensorboard/writer.py(3): flush", "logging"),
    ("model.py(4): log_softmax", None),
    ("<built-in function sleep>", "sleep"),
    ("<built-in function collect>", "garbage-collection"),
    ("<built-in method item of Tensor object at 0x7f>", None),
    ("torch/_dynamo/guards.py(3): check", "guards"),
    ("queue.py(154): get", "requests"),
    ("my/queue_items.py(3): get", None),
    ("selectors.py(452): select", "requests"),
    ("<built-in method get of _queue.SimpleQueue object at 0x7f>", "requests"),
    ("<built-in method acquire of _thread.lock object at 0x7f>", None),
    ("train.py(16): save_samples", "writing"),
    ("PIL/Image.py(2593): save", "writing"),
    ("PIL/ImageFile.py(678): _encode_tile", "writing"),
    ("PIL/ImageFile.py(200): load", "preprocessing"),
    ("pandas/core/generic.py(3): to_csv", "writing"),
    ("serve.py(12): load_model", "preparation"),
    ("torch/ao/quantization/quantize.py(483): quantize_dynamic", "preparation"),
    ("model.py(12): convert_to_text", None),
    ("train.py(9): save_checkpoint", "checkpointing"),
)
MARKS = (
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "loader"),
    ("## preprocess ##", "preprocessing"),
    ("preprocess_images", "preprocessing"),
    ("## sdd_preprocess_splits ##", None),
    ("step[DECODE bs=32]", None),
    ("Tokenize prompt", "tokenization"),
    ("TorchDynamo Cache Lookup", "guards"),
    ("Python GC", "garbage-collection"),
    ("gpu_model_runner: sample", "sampling"),
    ("Resample", None),
    ("log_softmax", None),
    ("save_checkpoint", "checkpointing"),
    ("checkpoint_wrapped_forward", None),
)


@pytest.mark.parametrize(("name", "role"), FRAMES)
def test_roles_of_frames(name: str, role: str | None) -> None:
    assert host_roles.of_frame(name) == role


@pytest.mark.parametrize(("name", "role"), MARKS)
def test_roles_of_marks(name: str, role: str | None) -> None:
    assert host_roles.of_mark(name) == role


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("<method 'acquire' of '_thread.lock' objects>", True),
        ("<built-in method acquire of _thread.lock object at 0x7f>", True),
        ("<method 'poll' of 'select.epoll' objects>", True),
        ("<method 'get' of 'dict' objects>", False),
    ],
)
def test_calls_that_wait(name: str, waits: bool) -> None:
    assert host_roles.is_waiting(name) is waits


def test_ids_are_unique() -> None:
    ids = [role.id for role in host_roles.ROLES]
    assert len(ids) == len({*ids})
