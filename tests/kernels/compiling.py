"""Compile launches that the interpreter has made, for a GPU that need not be there.

    python -m tests.kernels.compiling FILE

FILE is a JSON list of launches (`describe`). It is a process of its own, since the interpreter is chosen for all
kernels of a process; it prints one line for each launch that has been compiled.
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

HOPPER = ("cuda", 90, 32)
POINTED_AT = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float64: "fp64",
    torch.int64: "i64", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "i1",
}  # fmt: skip


def describe(
    function: Any, names: Sequence[str], constants: Sequence[str], values: Sequence[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """A launch as JSON: which kernel, and the type or the constant that each of its parameters got."""
    given = {**dict(zip(names, values, strict=False)), **more}
    told: dict[str, Any] = {"module": function.__module__, "kernel": function.__name__, "types": {}, "constants": {}}
    for name in names:
        value = given[name]
        if name in constants:
            told["constants"][name] = {"dtype": value.name} if isinstance(value, tl.dtype) else value
        elif isinstance(value, torch.Tensor):
            told["types"][name] = f"*{POINTED_AT[value.dtype]}"
        else:
            told["types"][name] = "fp32" if isinstance(value, float) else "i32"
    return told


def compile_for_a_gpu(launch: Mapping[str, Any]) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(importlib.import_module(launch["module"]), launch["kernel"])
    constants = {
        name: tl.dtype(value["dtype"]) if isinstance(value, dict) else value
        for name, value in launch["constants"].items()
    }
    signature = {name: launch["types"].get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    assert triton.compile(source, target=GPUTarget(*HOPPER)).asm["cubin"]


if __name__ == "__main__":
    for launch in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        compile_for_a_gpu(launch)
        print(launch["module"], launch["kernel"])
