"""The purpose of host work, as names show it: input preprocessing, tokenization, logging, ...

A role is recognized by a Python function and its file, by a mark, by a module class or by a built-in function. It
also applies to everything called inside.
"""

from __future__ import annotations

import re

import msgspec

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.first_match import AnyOf
from traceanalyzer.knowledge.python_frames import parse

_MODULE = re.compile(r"nn\.Module: (\w+?)(?:_\d+)?")


class HostRole(msgspec.Struct, frozen=True):
    """One line in the table of roles. A pattern that is None matches nothing."""

    id: str
    functions: AnyOf | None = None
    """Matches whole names of Python functions in any file."""
    files: AnyOf | None = None
    """Searched in `path: function` of Python frames, with `/` between folders."""
    marks: AnyOf | None = None
    """Searched in names of marks."""
    modules: AnyOf | None = None
    """Matches whole names of module classes."""
    builtins: AnyOf | None = None
    """Searched in names of built-in functions, `<built-in function sleep>`."""


_WAITING = re.compile(
    r"^<built-in (?:function (?:sleep|select|read|recv|waitpid)>"
    r"|method (?:sleep|poll|select|acquire|recv|recv_into) of "
    r"|method (?:read|read1|readinto|readline|readall) of _io\.(?:FileIO|Buffered\w+|TextIOWrapper) )"
    r"|^<method '(?:acquire|recv|recv_into|poll|select|accept|_accept|get)' of "
    r"'(?:_thread|_socket|select|_queue|_multiprocessing)\.\w+' objects>"
)

_DATA = r"(?:image|video|audio|frame|text|input|batch|data|sample|example|prompt|query|document)s?"
_WORD = r"(?<![A-Za-z0-9_])"

BUFFERS = "buffer-broadcast"
LOADER = "loader"
COMPILATION = "compilation"
INPUTS = ("preprocessing", "tokenization")
"""Roles of work that converts raw data to model inputs."""
OUTPUTS = "postprocessing"
"""Role of work that converts results of a model to what is shown or stored."""
WRITING = "writing"
"""Role of work that stores results: pictures, tables, figures."""
PREPARATION = "preparation"
"""Role of work that makes a model ready to run: loading, converting, quantizing it."""
ENVIRONMENT = "environment"
"""Role of work that simulates what a model acts in."""
REQUESTS = "requests"
"""Role of waits for work from outside: for a queue, a connection, or an event loop that has nothing to run."""

ROLES: tuple[HostRole, ...] = (
    HostRole(
        "tokenization",
        functions=AnyOf(r"_?(?:de)?tokenize(?:_\w+)?", "apply_chat_template", r"_?(?:batch_)?encode_plus"),
        files=AnyOf(
            r"tokenization_\w{1,99}\.py: ", r"(?:^|/)(?:tiktoken|sentencepiece|tokenizers)/", r"/(?:de)?tokenizer\w*/"
        ),
        marks=AnyOf("(?i)" + _WORD + r"(?:de)?tokeniz\w*"),
    ),
    HostRole(
        OUTPUTS,
        functions=AnyOf(rf"_?post_?process(?:ing)?(?:_{_DATA})?", r"(?:pt|numpy|tensor|latents?)_to_(?:pil|numpy)"),
        files=AnyOf(r"(?:^|/)(?:image|video|audio)_process\w*\.py: _?post_?process"),
        marks=AnyOf("(?i)" + _WORD + r"post-?process(?:ing)?(?![A-Za-z0-9_])"),
    ),
    HostRole(
        REQUESTS,
        files=AnyOf(
            r"(?:^|/)queue\.py: get$",
            r"(?:^|/)multiprocessing/queues\.py: get$",
            r"(?:^|/)selectors\.py: select$",
            r"(?:^|/)socket\.py: accept$",
            r"(?:^|/)zmq/sugar/(?:poll\.py: poll|socket\.py: recv\w*)$",
        ),
        builtins=AnyOf(
            r"^<built-in method (?:get of _queue\.SimpleQueue|_?accept of _?socket\.)",
            r"^<method '(?:get' of '_queue\.SimpleQueue|_?accept' of '_socket\.socket)' objects>",
        ),
    ),
    HostRole(
        ENVIRONMENT,
        files=AnyOf(
            r"(?:^|/)(?:gym|gymnasium|gym3|pettingzoo|dm_env|dm_control|ale_py|procgen|minigrid|supersuit|mujoco_py)/",
            r"(?:^|/)\w*(?:vec|vector)_envs?/[^/:]*+: (?:step|reset)\w*$",
            r"(?:^|/)(?:\w*_)?(?:env|environment)s?\.py: (?:step|reset)(?:_(?:async|wait|all))?$",
        ),
        marks=AnyOf(
            "(?i)" + _WORD + r"(?:env(?:ironment)?s?[ ._]step(?:s|ping)?|step[ _]env(?:ironment)?s?)(?![A-Za-z0-9_])"
        ),
    ),
    HostRole(
        PREPARATION,
        functions=AnyOf(
            r"_?(?:load|build|create|make|prepare|quantize|convert)_(?:the_)?(?:model|network|checkpoint|pretrained"
            r"|weights|state_dict)s?",
            "from_pretrained|quantize_dynamic",
        ),
        files=AnyOf(
            r"(?:^|/)torch/ao/quantization/(?:quantize\w*|fx/\w+)\.py: ",
            r"(?:^|/)torchao/quantization/quant_api\.py: ",
            r"(?:^|/)torch/(?:hub\.py: load$|__init__\.py: compile$|jit/_(?:script|trace)\.py: _?(?:script|trace)$)",
        ),
    ),
    HostRole(
        WRITING,
        functions=AnyOf(
            r"_?(?:save|write|dump|store|export)_(?:the_)?(?:image|sample|figure|plot|grid|picture|video|audio|frame|mask"
            r"|result|prediction|output|thumbnail|png|jpe?g|wav|csv|json)s?(?:_\w+)?",
            "savefig|imsave|imwrite|mimsave|mimwrite|to_(?:csv|parquet|json|pickle|excel|hdf|feather)|savez(?:_compressed)?",
        ),
        files=AnyOf(
            r"(?:^|/)PIL/[^/:]*+: (?:save|_save(?:_\w+)?|_encode\w*|encode\w*)$",
            r"(?:^|/)torchvision/(?:utils\.py: save_image|io/[^/:]*+: (?:write|encode)_\w+)$",
        ),
        marks=AnyOf(
            "(?i)" + _WORD + r"(?:save|write)[ _](?:images?|samples?|results?|predictions?|outputs?|pictures?)"
        ),
    ),
    HostRole(
        "preprocessing",
        functions=AnyOf(
            rf"_?pre_?process(?:ing)?(?:_{_DATA})?",
            r"(?:image|video|audio|data|input|feature)_pre_?process(?:ing|or)?",
            r"^(?:\w+_)?collate(?:_fn|_batch)?",
            r"augment(?:ation)?s?(?:_\w+)?|apply_(?:augmentations?|transforms)",
            r"(?:load|read|decode|open)_(?:image|video|audio|jpeg|png|wav|frame)s?(?:_\w+)?|imread|imdecode",
        ),
        files=AnyOf(
            r"(?:^|/)(?:image|video|audio)_process\w*\.py: (?!_?post_?process)",
            r"(?:^|/)image_transforms\.py: ",
            r"(?:^|/)(?:image_|video_)?processing_\w+\.py: (?!_?post_?process|forward$)",
            r"(?:^|/)feature_extraction_\w+\.py: ",
            r"(?:^|/)torchvision/(?:transforms|io)/",
            r"(?:^|/)(?:albumentations|imgaug|cv2|av|decord|torchcodec|imageio|skimage|librosa)/",
            # making a picture of an array has the purpose of its caller
            r"(?:^|/)PIL/(?!.*: (?:fromarray|frombuffer|frombytes|tobytes)$)",
            r"(?:^|/)kornia/augmentation/",
            r"(?:^|/)torchaudio/(?:transforms|compliance|backend|_backend)",
        ),
        marks=AnyOf(
            "(?i)" + _WORD + rf"(?:pre-?process(?:ing)?(?:_{_DATA})?|augment(?:ation)?s?|collate(?:_fn)?"
            r"|(?:image|data|input)[ _](?:pre-?processing|decoding|transforms?)|decode[ _](?:image|video|jpeg)s?)"
            r"(?![A-Za-z0-9_])"
        ),
        modules=AnyOf(
            "Random[A-Z][A-Za-z]+", "CenterCrop", "ColorJitter", "RandAugment", "TrivialAugmentWide", "AutoAugment"
        ),
    ),
    HostRole(
        "sampling",
        functions=AnyOf(r"sample_tokens?", r"_?sample_(?:and|from)_\w+"),
        files=AnyOf(
            r"(?:^|/)v1/sample/",
            r"(?:^|/)\w*sampler\.py: (?!__iter__$|__next__$)",
            r"(?:^|/)logits_process(?:or)?\.py: ",
        ),
        marks=AnyOf(_WORD + r"(?:Sampler?|sample|sampling)(?![A-Za-z0-9_])"),
        modules=AnyOf(r"^\w*Sampler"),
    ),
    HostRole(
        BUFFERS,
        files=AnyOf(
            r"(?:^|/)torch/nn/parallel/distributed\.py: "
            r"(?:_sync_(?:module_)?buffers|_sync_params(?:_and_buffers)?|_(?:default|distributed)_broadcast_coalesced)$"
        ),
    ),
    HostRole(
        "garbage-collection",
        functions=AnyOf(r"_?(?:maybe_)?(?:run_)?(?:gc_collect|collect_garbage|garbage_collect\w*)"),
        marks=AnyOf(r"(?i)^(?:Python GC|gc(?:\.collect)?|garbage[ _]collect\w*)$"),
        builtins=AnyOf(r"^<built-in function collect>$", r"^<built-in method collect of module object"),
    ),
    HostRole(
        "guards",
        files=AnyOf(r"(?:^|/)torch/_dynamo/guards\.py: "),
        marks=AnyOf(r"^TorchDynamo Cache Lookup$"),
        builtins=AnyOf("assert_size_stride", "assert_alignment", "check_guard"),
    ),
    HostRole(
        "checkpointing",
        functions=AnyOf(r"_?save_(?:checkpoint|model|state|training_state)(?:_\w+)?", "save_pretrained"),
        files=AnyOf(
            r"(?:^|/)torch/serialization\.py: _?(?:legacy_)?save$",
            r"(?:^|/)torch/distributed/checkpoint/\w*save\w*\.py: ",
            r"(?:^|/)safetensors/\w+\.py: save",
        ),
        marks=AnyOf("(?i)" + _WORD + r"(?:save|write)[ _](?:checkpoint|model|state)"),
    ),
    HostRole(
        "logging",
        functions=AnyOf(r"add_(?:scalar|histogram|image|text|figure)s?", r"log_(?:metrics|dict|scalars?)|training_log"),
        files=AnyOf(r"(?:^|/)(?:wandb|mlflow|tensorboardX|tensorboard|tqdm)/", r"(?:^|/)torch/utils/tensorboard/"),
        marks=AnyOf("(?i)" + _WORD + r"(?:log|logging|log_metrics)(?![A-Za-z0-9_])"),
        builtins=AnyOf(r"^<built-in function print>$"),
    ),
    HostRole("sleep", builtins=AnyOf(r"^<built-in function sleep>$", r"^<built-in method sleep of ")),
)
"""All roles; if several match, the first one is used."""


def is_waiting(name: str) -> bool:
    """Whether a process waits in a built-in function: for a clock, files, sockets, locks, other processes."""
    return _WAITING.search(name) is not None


def of_frame(name: str) -> str | None:
    """The role of a Python frame or of a built-in function; None if the name matches none."""
    if name.startswith(("<built-in ", "<method ")):
        return next((role.id for role in ROLES if role.builtins and role.builtins.compiled.search(name)), None)
    if name.startswith("nn.Module: "):
        return _of_module(name)
    frame = parse(name)
    if frame is None:
        return None
    place = f"{frame.path.replace(chr(92), '/')}: {frame.function}"
    for role in ROLES:
        if role.functions and role.functions.compiled.fullmatch(frame.function):
            return role.id
        if role.files and role.files.compiled.search(place):
            return role.id
    return None


def _of_module(name: str) -> str | None:
    """The role of a module's call; None if its class matches none."""
    module = _MODULE.fullmatch(name)
    if module is None:
        return None
    for role in ROLES:
        if role.modules and role.modules.compiled.fullmatch(module[1]):
            return role.id
    return None


def of_mark(name: str) -> str | None:
    """The role of a mark; None if the name matches none."""
    if marks.is_dataloader(name):
        return LOADER
    return next((role.id for role in ROLES if role.marks and role.marks.compiled.search(name)), None)
