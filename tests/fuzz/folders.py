"""Model folders: sparse files and checkpoints that are damaged, cut, or lie; and run folders whose records do."""

from random import Random
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.odd import json_value
from tests.fuzz.words import QUICK, SHORT

WEIGHTS, INDEX = "model.sparse.safetensors", "model.sparse.safetensors.index.json"
MODEL_COMMANDS = (
    "inspect it",
    "inspect it --json",
    "export it -o out",
    "export it -o out --format checkpoint --json",
    "evaluate it <reviews> --device cpu",
    f"prune it <reviews> -o out {QUICK}",
    f"finetune it <reviews> -o out --hold-mask {SHORT}",
)
SIZES = (0, 1, 2, 3, 16, 17, 32, -1, 2**31, 2**40, 2**62, 2**63, 10**30)
FIELDS = ("shape", "dtype", "stored", "kept", "parts")
CONFIG = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "model_type", "architectures",
    "id2label", "max_position_embeddings", "intermediate_size", "hidden_act", "dtype", "mgpp", "auto_map",
    "problem_type", "pad_token_id", "quantization_config", "type_vocab_size", "layer_norm_eps",
    "transformers_version", "label2id", "initializer_range",
)  # fmt: skip


def draw_model(draw: Random) -> Case:
    tree = draw.choice(("sparse", "sparse", "shards", "packed", "run"))
    files: dict[str, dict[str, Any]] = {"it": {"tree": tree}}
    for _ in range(draw.choice((1, 1, 1, 2))):
        kind = draw.choices(("weights", "config", "tokenizer", "link"), (7, 2, 1, 0.3))[0]
        if kind == "weights":
            _damage_weights(draw, tree, files)
        elif kind == "config":
            files["it/config.json"] = {"edits": [_of_json(draw, [draw.choice(CONFIG)])]}
        elif kind == "tokenizer":
            name = draw.choice(("tokenizer.json", "tokenizer_config.json"))
            files[f"it/{name}"] = {"edits": [draw.choice((_of_json(draw, [draw.randrange(8)]), _noise(draw)))]}
        else:
            files[f"it/{draw.choice((WEIGHTS, INDEX, 'config.json'))}"] = {
                "link": draw.choice(("/proc/nope/x", "..", "<bert>/config.json"))
            }
    return Case(area="models", words=draw.choice(MODEL_COMMANDS).split(), files=files)


def _damage_weights(draw: Random, tree: str, files: dict[str, dict[str, Any]]) -> None:
    if tree == "run":
        files["it/model.safetensors"] = {"edits": [_noise(draw)]}
        return
    if tree == "shards" and draw.random() < 0.4:
        way = draw.choice((["shards", 0], ["shards", 1], ["weight_map", draw.randrange(9)], ["version"], ["format"]))
        files[f"it/{INDEX}"] = {"edits": [draw.choice((_of_json(draw, way), _of_json(draw, way), _noise(draw)))]}
        return
    name = "model.sparse-00001-of-00004.safetensors" if tree == "shards" else WEIGHTS
    files[f"it/{name}"] = {"edits": [draw.choice((_noise, _noise, _lie, _lie, _lie))(draw)]}


def _noise(draw: Random) -> list[Any]:
    kind = draw.randrange(6)
    if kind < 2:  # the header, where a byte has a meaning, is the first part of a tiny file
        return ["flip", draw.random() * draw.choice((0.01, 0.5, 1)), 1 << draw.randrange(8)]
    if kind < 4:
        return ["cut", draw.choice((0.0, 0.001, draw.random(), 0.9999))]
    return ["insert", draw.choice((0.0, draw.random(), 1.0)), draw.choice(("\x00", "x" * 9, "{}", "\x00" * 4_000))]


def _lie(draw: Random) -> list[Any]:
    """Of the layout, with every checksum made to match; or of the container's header, as it stands."""
    tensor, value = draw.randrange(60), draw.choice((*SIZES, *(json_value(draw) for _ in range(6))))
    if draw.random() < 0.3:
        field = draw.choice(("dtype", "shape", "data_offsets"))
        way: list[Any] = [
            draw.randrange(60),
            field,
            *([draw.randrange(2)] if field != "dtype" and draw.random() < 0.7 else []),
        ]
        return ["header", way, value]
    way = draw.choice(
        (
            ["layout", "tensors", tensor, draw.choice(FIELDS)],
            ["layout", "tensors", tensor, "shape", draw.randrange(2)],
            ["layout", "tensors", tensor, "shape", draw.randrange(2)],
            ["layout", "tensors", tensor, "kept"],
            ["layout", "tensors", tensor, "parts", 0, draw.choice(("crc32", "zstd"))],
            ["layout", "tied", "x"],
            ["layout", draw.choice(("tensors", "tied"))],
            ["header", tensor, draw.choice(("dtype", "shape"))],
            ["metadata", draw.choice(("format", "version", "x"))],
        )
    )
    if way[-1] in ("dtype", "stored") and draw.random() < 0.7:
        value = draw.choice(("F64", "F32", "BF16", "F16", "I8", "U8", "BOOL", "F8_E4M3", "I64"))
    return ["forge", way, value]


def _of_json(draw: Random, way: list[Any]) -> list[Any]:
    return (
        ["drop", way]
        if draw.random() < 0.15
        else ["set", way, draw.choice((*SIZES, *(json_value(draw) for _ in range(12))))]
    )


# Run folders

RUN_COMMANDS = (
    "report it -o page.html",
    "report it <run> -o page.html --json",
    "watch it --once",
    "watch it --json",
    "plot sparsity it -o x.svg",
    "plot weights it -o x.svg",
    "plot loss it -o x.svg",
    "plot spike it -o x.svg",
    "plot regrowth it -o x.svg",
    "plot layers it -o x.svg",
    f"prune <bert> <reviews> -o it --overwrite {QUICK}",
    f"prune <bert> <reviews> -o it --resume {QUICK} --save-steps 1 --logging-steps 1",
    f"prune <bert> <reviews> -o it {QUICK}",
    f"compare <bert> <reviews> -o it -m gmp {SHORT}",
)
IN_RUN = {
    "run": ("records.jsonl", "records.jsonl", "result.json", "run.json"),
    "unfinished": ("checkpoints/records.jsonl", "run.json", "checkpoints/checkpoint-1/whole.json"),
}
IN_RECORD = (
    "event", "step", "sparsity", "target", "cut", "zeros", "weights", "method", "schedule", "look", "loss", "warm_up",
    "steps", "layers", "learning_rate",
)  # fmt: skip
IN_RESULT = (
    "config", "after", "before", "method", "schedule", "metric", "files", "hardware", "versions", "seconds", "zeros",
    "prunable", "sparsity", "notes", "commit", "target_sparsity", "train_rows",
)  # fmt: skip


def draw_run(draw: Random) -> Case:
    if draw.random() < 0.12:
        return _comparison(draw)
    tree = draw.choice(list(IN_RUN))
    files: dict[str, dict[str, Any]] = {"it": {"tree": tree}}
    for _ in range(draw.choice((1, 1, 2))):
        name = draw.choice(IN_RUN[tree])
        files[f"it/{name}"] = {
            "edits": [draw.choice((_in_file, _in_file, _in_file, lambda d, _: _noise(d)))(draw, name)]
        }
    return Case(area="runs", words=draw.choice(RUN_COMMANDS).split(), files=files)


def _in_file(draw: Random, name: str) -> list[Any]:
    if name.endswith("records.jsonl"):
        line = draw.randrange(8)
        return _of_json(
            draw,
            draw.choice(
                ([line], [line, draw.choice(IN_RECORD)], [0, draw.choice(IN_RECORD)], [line, draw.randrange(9), 0])
            ),
        )
    key = draw.choice(IN_RESULT if name == "result.json" else ("config", "before", "step", "seconds", "x"))
    return _of_json(draw, draw.choice(([key], [key, draw.randrange(40)], [key, draw.randrange(40), 0])))


def _comparison(draw: Random) -> Case:
    way = draw.choice(
        (["summary"], ["methods"], ["sparsities"], ["metric"], ["summary", draw.randrange(4)], ["methods", 0])
    )
    way = [*way, draw.choice(("mean", "std", "method", "sparsity"))] if way[0] == "summary" and len(way) > 1 else way
    edit = _noise(draw) if draw.random() < 0.3 else _of_json(draw, way)
    files = {"it": {"tree": "comparison"}, "it/results.json": {"edits": [edit]}}
    return Case(
        area="runs",
        words=draw.choice(("plot metric it -o x.svg", "report it", "plot metric it/results.json -o x.png")).split(),
        files=files,
    )
