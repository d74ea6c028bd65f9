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


def test_ids_are_unique() -> None:
    ids = [role.id for role in host_roles.ROLES]
    assert len(ids) == len({*ids})
