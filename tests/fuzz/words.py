"""Command lines: a right one, and something done to it. The options are read from the command itself."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, get_args

from mgpp.cli.app import load
from mgpp.methods import METHODS
from mgpp.presets.read import RUN_KEYS
from mgpp.tasks import TASKS
from tests.fuzz.case import Case
from tests.fuzz.odd import NUMBERS, word

Words = list[str]

SHORT = "--max-steps 2 --batch-size 4 --device cpu --eval-batch-size 8 --max-length 16"
RAMP = "-s 0.5 --set start=0 --set end=1 --set every=1"
QUICK = f"{RAMP} {SHORT}"

LINES: dict[str, tuple[str, ...]] = {
    "prune": (
        f"prune <bert> <reviews> -o out {QUICK}",
        f"prune <bert> <corpus> -o out --task mlm {QUICK}",
        f"prune <llama> <corpus> -o out --task clm {QUICK}",
        f"prune <bert> <questions> -o out --task squad --doc-stride 2 {QUICK}",
        f"prune --preset bert-base/sst2 --model <bert> --data <reviews> --text text -o out {QUICK}",
        f"prune <bert> <reviews> -o <unfinished> --resume {QUICK} --save-steps 1 --logging-steps 1",
        f"prune <bert> <reviews> -o out --teacher <run> {QUICK}",
    ),
    "finetune": (
        f"finetune <sparse> <reviews> -o out --hold-mask {SHORT}",
        f"finetune <bert> <reviews> -o out {SHORT}",
    ),
    "evaluate": ("evaluate <run> <reviews> --device cpu", "evaluate <sparse> <reviews> --device cpu --json"),
    "compare": (f"compare <bert> <reviews> -o out -m mgpp,gmp -s 0.5,0.9 --set start=0 --set end=1 {SHORT}",),
    "sweep": (f"sweep <bert> <reviews> -o out -g learning_rate=1e-5,5e-5 -n 2 {QUICK}",),
    "inspect": ("inspect <bert>", "inspect <sparse> --json", "inspect bert", "inspect <run>/config.json --all"),
    "export": (
        "export <run> -o out",
        "export <sparse> -o out --format checkpoint",
        "export <run> -o out --values int8",
    ),
    "report": ("report <run> -o page.html", "report <run> <unfinished> -o page.html --json"),
    "watch": ("watch <run> --once", "watch <unfinished> --json"),
    "plot": ("plot penalties -o x.svg", "plot sparsity <run> -o x.svg", "plot metric <comparison> -o x.png"),
    "bench": ("bench", "bench selection --sizes 1000", "bench inference --sparsities 0.9 --output bench.json"),
    "demo": ("demo -o out",),
    "presets": (
        "presets",
        "presets show bert-base/mnli",
        "presets copy bert-base/mnli mine.toml",
        "presets show bert-base/squad -s 0.9",
    ),
}

# What a person who knows the option would give it; half of the values that are tried.
LIKELY: dict[str, tuple[str, ...]] = {
    "task": tuple(TASKS),
    "methods": ("mgpp", "mgpp,gmp", "none", "mgpp,mgpp", ","),
    "method": (*METHODS, "none"),
    "precision": ("fp32", "bf16", "fp16"),
    "device": ("auto", "cuda", "cuda:1"),
    "optimizer": ("mgpp", "adamw_torch", "sgd", "adafactor", "adamw_bnb_8bit", "lion_8bit", "rmsprop", "galore_adamw"),
    "model": ("<bert>", "<llama>", "<run>", "bert", "no-such", "owner/no-such"),
    "data": ("<reviews>", "<corpus>", "<reviews>/train.jsonl", "no-such", "glue/sst2", "no.csv"),
    "teacher": ("<run>", "<bert>", "auto", "none"),
    "preset": ("bert-base/mnli", "mnli", "bert-base/upstream-mnli", "./no.toml", "smollm2-135m/mgpp"),
    "settings": (
        "end=2", "start=0.5", "spike_var=1e-9", "structure=2:4", "structure=2x1", "mgpp.end=2", "score=curvature",
        "sparsity=0.5", "every=0", "prune_at=1", "prior=1", "end=1e9ep", "slab_prob=0", "decoupled=maybe", "ratio=2",
        "[a=1", "block=0", "rank_ratio=0.5", "initial_sparsity=0.9", "start=1979-05-27", "end=[1]", "end={a=1}",
    ),
    "grid": (
        "learning_rate=1e-5..1e-4", "method.spike_var=1e-10..1e-8", "batch_size=4,8", "seed=0..9", "epochs=1..2", "x=1",
        "method.end=1,2", "learning_rate=1..1", "task=text", "learning_rate=nan..inf", "batch_size=4,x", "model=a,b",
        "seed=0..1e300", "method.structure=2:4,2x1", "learning_rate=[1],[2]", "seed=0..99999999999999999999999",
    ),
    "sampler": ("tpe", "random", "grid"),
    "pruner": ("median", "halving", "none"),
    "storage": ("study.db", "study.journal", "sqlite:///here.db", "redis://x:secret@y", "x://y", "<reviews>", "mysql://u:p@h/d"),
    "form": ("sparse", "checkpoint", "pickle"),
    "values": ("fp32", "bf16", "fp16", "int8", "int4"),
    "embeddings": ("fp32", "bf16", "int8"),
    "shard_size": ("5GB", "1KB", "400", "10000", "0", "-1KB", "1e9", "1XB"),
    "push": ("owner/name", "name", "a/b/c"),
    "figure": ("layers", "metric", "weights", "loss", "regrowth", "spike", "landscapes", "x"),
    "report_to": ("tensorboard", "wandb", "none", "all"),
    "sparsities": ("0.5", "0.8,0.9", "0.5,0.5", "a,b", "nan", "0.3"),
    "seeds": ("0", "0,1", "0,0", "x", "-1", "4294967296"),
    "sizes": ("1e6", "10,20", "1e300", "inf", "1e15", "x"),
    "batches": ("1", "0", "inf", "1e18"),
    "shape": ("minilm", "llama-1b"),
    "include": ("*query*", "*", "x", "["),
    "exclude": ("*query*", "*", "x"),
    "eval_split": ("validation", "train", "train:holdout", "test"),
    "train_split": ("train", "validation", "test"),
    "label": ("label", "text", "x"),
    "text": ("text", "label", "x"),
    "epochs": ("1", "0.01", "1e300"),
    "sparsity": ("0.5", "0", "1", "90", "0.999999"),
}  # fmt: skip

# Numbers that start as many processes, or make engines that take seconds each: theirs are few.
ONLY: dict[str, tuple[str, ...]] = {
    "workers": ("0", "-1", "x", "1.5", "99999999999999999999"),
    "processes": ("1", "2", "0", "-1", "x", "99999999999999999999", "1000000"),
    "form": (*LIKELY["form"], "", "Sparse", "x"),
}


NUMERIC = {name for name, hint in RUN_KEYS.items() if {int, float} & {hint, *get_args(hint)}}
NUMERIC |= {"trials", "patience", "evaluations", "rounds", "length", "every", "slab_prob", "spike_var", "slab_var"}


@cache
def options_of(command: str) -> list[Any]:
    """The options of a command, and of the commands below it."""
    found = load(command)
    below = [one for sub in getattr(found, "commands", {}).values() for one in sub.params]
    return [one for one in (*found.params, *below) if one.param_type_name == "option" and one.name != "help"]


def draw_case(draw: Random) -> Case:
    command = draw.choice(list(LINES))
    words = draw.choice(LINES[command]).split()
    for _ in range(draw.choices((0, 1, 2, 3), (1, 9, 6, 3))[0]):
        words = draw.choice(CHANGES)(draw, command, words)
    return Case(area="words", words=words)


def value_for(draw: Random, name: str) -> str:
    if name in ONLY:
        return draw.choice(ONLY[name])
    if name in NUMERIC and draw.random() < 0.85:
        return draw.choice(NUMBERS)
    if name in LIKELY and draw.random() < 0.5:
        return draw.choice(LIKELY[name])
    return draw.choice(NUMBERS) if draw.random() < 0.3 else word(draw)


def _give(draw: Random, command: str, words: Words) -> Words:
    option = draw.choice(options_of(command))
    flag = draw.choice([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return [*words, flag]
    value = value_for(draw, option.name)
    return [*words, f"{flag}={value}"] if flag.startswith("--") and draw.random() < 0.3 else [*words, flag, value]


def _replace(draw: Random, command: str, words: Words) -> Words:
    if len(words) < 2:
        return words
    at = draw.randrange(1, len(words))
    # A value that is replaced is one of its option's own: an option takes the word after it, whatever that is.
    named = {flag: option.name for option in options_of(command) for flag in option.opts}
    return [*words[:at], value_for(draw, named.get(words[at - 1], "")), *words[at + 1 :]]


def _drop(draw: Random, command: str, words: Words) -> Words:
    at = draw.randrange(0 if draw.random() < 0.1 else min(1, len(words)), len(words) + 1)
    return [*words[:at], *words[at + 1 :]]


def _insert(draw: Random, command: str, words: Words) -> Words:
    at = draw.randrange(1, len(words) + 1) if words else 0
    return [*words[:at], word(draw), *words[at:]]


def _swap(draw: Random, command: str, words: Words) -> Words:
    if len(words) < 3:
        return words
    one, other = draw.sample(range(1, len(words)), 2)
    changed = list(words)
    changed[one], changed[other] = words[other], words[one]
    return changed


CHANGES: tuple[Callable[[Random, str, Words], Words], ...] = (_give,) * 6 + (_replace,) * 3 + (_drop, _insert, _swap)
