"""torch.compile: code that PyTorch's compiler generated, in any program."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

TORCH_COMPILE = Framework(
    id="torch.compile",
    title="torch.compile",
    role="compiler",
    names=matching(
        r"^Torch-Compiled Region\b",
        r"^## Call CompiledFxGraph ",
        r"^TorchDynamo Cache Lookup$",
        r"^CompiledFunction(?:Backward)?$",
        r"^AOTDispatcher Runtime Wrapper",
        r"^inductor::",
        r"^triton_(?:poi|red|per|tem|for)_fused_",
    ),
    frames=matching(
        path("torch", "_dynamo", r"eval_frame\.py\([0-9]{1,9}\): (?:_fn|compile_wrapper|__call__)$"),
        path("torch", "_inductor", r"output_code\.py\("),
        path("torch", "_functorch", r"_aot_autograd[/\\]runtime_wrappers\.py\("),
    ),
)
