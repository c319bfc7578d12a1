"""Tables 1 and 2: which cells are run, first to choose each method's settings, then for the tables themselves.

    python experiments/glue/grid.py choose MODEL CELLS                     candidates, scored on held-out train rows
    python experiments/glue/grid.py table MODEL CHOSEN.jsonl CELLS         the best of each, on the validation sets
    python experiments/glue/grid.py table2 MODEL CHOSEN.jsonl CELLS        some of these, on the tasks of parts.py
    python experiments/glue/grid.py seeds MODEL CHOSEN.jsonl CELLS         the closest of Table 1 with more seeds
    python experiments/glue/grid.py fifth MODEL CHOSEN.jsonl CELLS         SST-2, which larger models lack in Table 1
    python experiments/glue/grid.py vary MODEL CELLS                       variations on the recommended form, held-out
    python experiments/glue/grid.py figure MODEL CHOSEN.jsonl CELLS        a few again, looked at while they train

The candidates of every method are as many for all, but for two that cost more: three learning rates, and where a
method has a setting of its own that matters, two values of it. They are compared by the mean over CHOOSE_ON of the
metric at 90%.
"""

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

EPOCHS = {"cola": 6, "mrpc": 8, "stsb": 6, "rte": 8, "sst2": 2, "mnli": 2, "qnli": 2, "qqp": 2}
CHOOSE_ON = ("stsb", "cola", "mrpc")
CHOOSE_AT = 0.9
RATES = {
    "minilm": (5e-5, 1e-4, 2e-4),
    "mpnet-base": (2e-5, 4e-5, 8e-5),
    # Its authors tune it dense at 4.5e-5; the paper prunes DeBERTaV3-base at 5e-5 to 1e-4; half the width bears more.
    "deberta-v3-xsmall": (5e-5, 1e-4, 2e-4),
}
RAMP = {"start": 0.1, "end": 0.7}

# σ0² and σ1² of the paper's row for a data set of this size.
PAPER = {"spike_var": 1e-9, "slab_var": 0.1}
FREE = {"method": "mgpp", "score": "curvature", "decoupled": True, **PAPER}
RECOMMENDED = {**FREE, "strength": 0.1, "reach": 0.1}
METHODS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "GMP": ({"method": "gmp"}, [{}]),
    "L2": ({"method": "l2"}, [{"weight": 1e-4}, {"weight": 1e-3}]),
    "PA": ({"method": "prior_annealing"}, [{}, {"spike_var_start": 1e-5, "spike_var_end": 1e-6}]),
    "Movement": ({"method": "movement", "every": 1}, [{"scope": "layer"}, {"scope": "global"}]),
    "SoftMovement": ({"method": "soft_movement"}, [{"score_penalty": 100.0}, {"score_penalty": 400.0}]),
    "ITP": ({"method": "itp"}, [{}]),
    "PLATON": ({"method": "platon"}, [{"beta2": 0.85}, {"beta2": 0.95}]),
    "MGPP (paper)": ({"method": "mgpp", **PAPER}, [{"strength": 0.1}, {"strength": 1.0}]),
    "MGPP decoupled": ({"method": "mgpp", "decoupled": True, **PAPER}, [{"strength": 0.01}, {"strength": 0.1}]),
    "curvature, no prior": ({"method": "gmp", "score": "curvature"}, [{}]),
    "MGPP curvature": (FREE, [{"strength": 0.01}, {"strength": 0.1}]),
    "MGPP recommended": (RECOMMENDED, [{}]),
    "LoSparse": ({"method": "losparse"}, [{}]),
}
# Its low-rank part alone has 5% of the weights, all that is left at 95%.
SMALLER = {("LoSparse", 0.95): {"ratio": 0.025}}
# An event takes so many backward passes of its own: fewer of both than its card has, and of a larger model one rate.
DEAR = {"oBERT": {"method": "obert", "every": 0.1, "num_grads": 128}}
TAUGHT = {"MGPP recommended + teacher": (RECOMMENDED, [{}]), "PLATON + teacher": ({"method": "platon"}, [{}])}
FIGURED = ("MGPP (paper)", "L2", "MGPP curvature")
TEACHER = {"temperature": 2.0, "weight": 0.9}
# Not in the table: what else might have helped, and the training's own settings beside it.
SCORED = {**FREE, "method": "tried", "strength": 0.0}
MILD = {**FREE, "strength": 0.01}
TRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "score |θ|·v̂^¼": ({**SCORED, "form": "power", "power": 0.5}, {}),
    "score |θ|·v̂^⅜": ({**SCORED, "form": "power", "power": 0.75}, {}),
    "score |θ|·v̂^⅝": ({**SCORED, "form": "power", "power": 1.25}, {}),
    "levelled by matrix, half": ({**SCORED, "form": "levelled", "power": 0.5}, {}),
    "levelled by matrix": ({**SCORED, "form": "levelled", "power": 1.0}, {}),
    "posterior, n": ({**SCORED, "form": "posterior", "examples": 1.0}, {}),
    "posterior, 32n": ({**SCORED, "form": "posterior", "examples": 32.0}, {}),
    "posterior, 1000n": ({**SCORED, "form": "posterior", "examples": 1000.0}, {}),
    "ramp to 0.5": ({**MILD, "end": 0.5}, {}),
    "ramp to 0.85": ({**MILD, "end": 0.85}, {}),
    "ramp from 0": ({**MILD, "start": 1}, {}),
    "mask held after the ramp": ({**MILD, "fix_after_ramp": True}, {}),
    "first cut at 30%": ({**MILD, "initial_sparsity": 0.3}, {}),
    "an event at every step": ({**MILD, "every": 1}, {}),
    "an event every 50 steps": ({**MILD, "every": 50}, {}),
    "spike 1e-7": ({**MILD, "spike_var": 1e-7}, {}),
    "spike 1e-11": ({**MILD, "spike_var": 1e-11}, {}),
    "strength 0.001": ({**FREE, "strength": 0.001}, {}),
    "strength 1": ({**FREE, "strength": 1.0}, {}),
    "coupled": ({**MILD, "decoupled": False}, {}),
    "slab 0.01": ({**MILD, "slab_var": 0.01}, {}),
    "slab 1": ({**MILD, "slab_var": 1.0}, {}),
    "λ 1e-4": ({**MILD, "slab_prob": 1e-4}, {}),
    "λ 1e-12": ({**MILD, "slab_prob": 1e-12}, {}),
    "Adam's β2 0.99": (MILD, {"betas": [0.9, 0.99]}),
    "Adam's β2 0.98": (MILD, {"betas": [0.9, 0.98]}),
    "learning rate level until the ramp's end": (MILD, {"level": 0.7}),
    "PA, not clipped": ({"method": "prior_annealing"}, {"clip": None}),
}

# Variations on the recommended form with several seeds, and the strongest rival beside them.
TRIED_ON_BEST = {**RECOMMENDED, "method": "tried", "form": "curvature"}
VARIED_SEEDS = (0, 1, 2)
VARIED: dict[str, tuple[dict[str, Any] | None, tuple[float, ...]]] = {
    "dense": (None, (0.0,)),
    "MGPP recommended": (RECOMMENDED, (0.9, 0.95)),
    "PLATON": ({"method": "platon", "beta2": 0.95}, (0.9, 0.95)),
    "no prior": ({"method": "gmp", "score": "curvature"}, (0.9, 0.95)),
    "no reach": ({**FREE, "strength": 0.1}, (0.95,)),
    "ten times the strength": ({**RECOMMENDED, "strength": 1.0}, (0.95,)),
    "ten times the reach": ({**RECOMMENDED, "reach": 1.0}, (0.95,)),
    "the prior not warmed up": ({**RECOMMENDED, "prior_warm_up": False}, (0.95,)),
    "λ 1e-12": ({**RECOMMENDED, "slab_prob": 1e-12}, (0.95,)),
    "an event at every step": ({**RECOMMENDED, "every": 1}, (0.9, 0.95)),
    "ramp from 0": ({**RECOMMENDED, "start": 1}, (0.95,)),
    "ramp to 0.5": ({**RECOMMENDED, "end": 0.5}, (0.9, 0.95)),
    "ramp to 0.5, mask held after it": ({**RECOMMENDED, "end": 0.5, "fix_after_ramp": True}, (0.9, 0.95)),
    "mask held after the ramp": ({**RECOMMENDED, "fix_after_ramp": True}, (0.9, 0.95)),
    "PLATON, ramp to 0.5": ({"method": "platon", "beta2": 0.95, "end": 0.5}, (0.9, 0.95)),
    "no regrowth": ({**TRIED_ON_BEST, "fate": "held"}, (0.95,)),
    "pruned weights kept beside": ({**TRIED_ON_BEST, "fate": "latent"}, (0.9, 0.95)),
    "a spike that follows the cut": ({**TRIED_ON_BEST, "following": 0.1}, (0.95,)),
    "a spike that follows the cut, reach 1": ({**TRIED_ON_BEST, "following": 1.0}, (0.95,)),
    "score: posterior, 32n": ({**TRIED_ON_BEST, "form": "posterior", "examples": 32.0}, (0.95,)),
    "score |θ|·v̂^⅜": ({**TRIED_ON_BEST, "form": "power", "power": 0.75}, (0.95,)),
}


@dataclass(frozen=True, kw_only=True)
class Table:
    tasks: tuple[str, ...]  # as they come: in Table 1 the longest last
    names: tuple[str, ...]  # beside the dense model
    sparsities: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many cells it has once every method's settings are chosen."""
        return len(self.seeds) * len(self.tasks) * (1 + len(self.names) * len(self.sparsities))


TABLES = {
    "table": Table(
        tasks=("cola", "mrpc", "stsb", "rte", "sst2"),
        names=(*METHODS, *TAUGHT, *DEAR),
        sparsities=(0.8, 0.9, 0.95),
        seeds=(0, 1, 2),
    ),
    "table2": Table(
        tasks=("mnli", "qnli", "qqp"),
        names=("GMP", "PLATON", "MGPP (paper)", "curvature, no prior", "MGPP recommended", *TAUGHT),
        sparsities=(0.9,),
        seeds=(0, 1, 2),
    ),
    # The family and its strongest rival, which three seeds cannot tell apart.
    "seeds": Table(
        tasks=("cola", "mrpc", "stsb", "rte", "sst2"),
        names=("PLATON", "curvature, no prior", "MGPP recommended"),
        sparsities=(0.9, 0.95),
        seeds=(3, 4, 5),
    ),
}
# A larger model takes longer: the methods in question, and where they differ.
SHORTER = ("cola", "mrpc", "stsb", "rte")
LARGER = {
    "table": Table(
        tasks=SHORTER,
        names=("GMP", "L2", "PLATON", "MGPP (paper)", "curvature, no prior", "MGPP recommended"),
        sparsities=(0.9, 0.95),
        seeds=(0, 1, 2),
    ),
    "seeds": replace(TABLES["seeds"], tasks=SHORTER),
    # The task that these lack, four times as long as the longest of the others.
    "fifth": Table(
        tasks=("sst2",),
        names=("GMP", "PLATON", "MGPP (paper)", "curvature, no prior", "MGPP recommended"),
        sparsities=(0.9,),
        seeds=(0, 1, 2),
    ),
}
# Where the family is above PLATON: the others that are as good on the smallest model.
BESIDE = {"deberta-v3-xsmall": ("SoftMovement", "oBERT")}
WITH_ALL = "minilm"


def planned(model: str, which: str = "table") -> Table:
    if model == WITH_ALL or which not in LARGER:
        return TABLES[which]
    told = LARGER[which]
    return replace(told, names=(*told.names, *BESIDE.get(model, ()))) if which == "table" else told


def cell(
    name: str, model: str, task: str, method: dict[str, Any] | None, sparsity: float, **more: Any
) -> dict[str, Any]:
    settings = None if method is None else {**RAMP, **method, "sparsity": sparsity, **SMALLER.get((name, sparsity), {})}
    return {"name": name, "model": model, "task": task, "method": settings, "epochs": EPOCHS[task], **more}


def candidates(model: str) -> list[dict[str, Any]]:
    cells = []
    rates, names = RATES[model], planned(model).names
    for task in CHOOSE_ON:
        held = {"held_out": True, "seed": 0}
        cells += [cell("dense", model, task, None, 0.0, lr=rate, **held) for rate in rates]
        for name, (method, settings) in METHODS.items():
            cells += [
                cell(name, model, task, {**method, **own}, CHOOSE_AT, lr=rate, **held)
                for own, rate in product(settings, rates)
                if name in names
            ]
        for name, (method, settings) in TAUGHT.items():
            cells += [
                cell(
                    name,
                    model,
                    task,
                    {**method, **own},
                    CHOOSE_AT,
                    lr=rate,
                    teacher={**TEACHER, "lr": rates[1]},
                    **held,
                )
                for own, rate in product(settings, rates)
                if name in names
            ]
        cells += [
            cell(name, model, task, method, CHOOSE_AT, lr=rate, **held)
            for name, method in DEAR.items()
            for rate in (rates if model == WITH_ALL else rates[1:2])
            if name in names
        ]
        cells += [
            cell(name, model, task, method, CHOOSE_AT, lr=rates[1], **held, **more)
            for name, (method, more) in (TRIED if model == WITH_ALL else {}).items()
        ]
    return cells


def varied(model: str) -> list[dict[str, Any]]:
    """Task by task, so that those that can be trained together stand together."""
    return [
        cell(name, model, task, method, sparsity, lr=RATES[model][1], held_out=True, seed=seed)
        for task, (name, (method, sparsities)) in product(CHOOSE_ON, VARIED.items())
        for sparsity, seed in product(sparsities, VARIED_SEEDS)
    ]


def best(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each name the candidate with the best mean, if it was run on all the tasks."""
    scores: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        if "error" not in line:
            told = line["cell"]
            kept = json.dumps({key: told.get(key) for key in ("method", "lr", "teacher")}, sort_keys=True)
            scores[told["name"]][kept][told["task"]] = line["metrics"]["held_out"][line["metric"]]
    chosen = {}
    for name, each in scores.items():
        whole = {
            key: sum(found[task] for task in CHOOSE_ON) / len(CHOOSE_ON)
            for key, found in each.items()
            if set(CHOOSE_ON) <= set(found)
        }
        if whole:
            key = max(whole, key=lambda key: whole[key])
            chosen[name] = {**json.loads(key), "held_out": round(whole[key], 4), "of": len(whole)}
    return chosen


def table(model: str, chosen: dict[str, dict[str, Any]], which: str = "table") -> list[dict[str, Any]]:
    """Seed by seed, so that a table that is not finished has whole columns."""
    cells: list[dict[str, Any]] = []
    told_of = planned(model, which)
    for seed, task in product(told_of.seeds, told_of.tasks):
        cells.append(cell("dense", model, task, None, 0.0, lr=chosen["dense"]["lr"], seed=seed))
        for name in told_of.names:
            if name in chosen:
                told = chosen[name]
                more = {"teacher": {**told["teacher"], "lr": chosen["dense"]["lr"]}} if told["teacher"] else {}
                cells += [
                    cell(name, model, task, told["method"], sparsity, lr=told["lr"], seed=seed, **more)
                    for sparsity in told_of.sparsities
                ]
    return cells


def figure(model: str, chosen: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """For the paper's Fig. 2: what is left of the weights, and the cut during training."""
    return [
        cell(name, model, "stsb", chosen[name]["method"], CHOOSE_AT, lr=chosen[name]["lr"], seed=0, looks=40)
        for name in FIGURED
        if name in chosen
    ]


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


ALONE = {"choose": candidates, "vary": varied}  # need no chosen settings


def main(what: str, model: str, *paths: str) -> None:
    if what in ALONE:
        cells = ALONE[what](model)
    else:
        chosen = best(read(paths[0]))
        cells = figure(model, chosen) if what == "figure" else table(model, chosen, what)
    Path(paths[-1]).write_text(json.dumps(cells, indent=0), encoding="utf-8")
    print(f"{len(cells)} cells")


if __name__ == "__main__":
    main(*sys.argv[1:])
