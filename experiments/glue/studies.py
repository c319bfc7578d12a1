"""Methods that look broken beside their papers, each with its settings turned, on held-out train rows; and, on the
validation sets, teachers: one that is larger than its pupil, and one with time.

python experiments/glue/studies.py movement MODEL CELLS      hard movement, masked more or less often
python experiments/glue/studies.py annealing MODEL CELLS     prior annealing, and magnitude cut at one blow
python experiments/glue/studies.py clipping MODEL CELLS      the paper's MGPP with nothing clipped
python experiments/glue/studies.py higher MODEL CELLS        candidates of Table 1 at a rate above the highest of them
python experiments/glue/studies.py following MODEL CELLS     learning rates that follow the share of weights left
python experiments/glue/studies.py faster MODEL CELLS        rows of Table 1 with such a rate, on the validation sets
python experiments/glue/studies.py faster2 MODEL CELLS       and of Table 2
python experiments/glue/studies.py faster5 MODEL CELLS       and on SST-2, which larger models lack in Table 1
python experiments/glue/studies.py longer MODEL CELLS        a few candidates of Table 1 in longer runs
python experiments/glue/studies.py taught MODEL CELLS        a larger teacher; the teachers themselves come first
python experiments/glue/studies.py patient MODEL CELLS       longer runs, with a teacher as large and without
python experiments/glue/studies.py unlabelled MODEL CELLS    a larger teacher that answers rows without labels, too
"""

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from experiments.glue.grid import (
    CHOOSE_AT,
    CHOOSE_ON,
    EPOCHS,
    METHODS,
    RATES,
    RECOMMENDED,
    TABLES,
    TEACHER,
    cell,
    planned,
)

# Hard movement on STS-B: (epochs, sparsities, settings), each with a mask every so many steps; what else was turned.
LONGER = {"start": 0.05, "end": 0.95}
MOVED: list[tuple[int, tuple[float, ...], dict[str, Any]]] = [
    *[(6, (0.2, 0.5, 0.8), {"every": every}) for every in (1, 10)],
    *[(24, (0.5, 0.8), {"every": every}) for every in (1, 10)],
    *[(72, (0.8,), {"every": every}) for every in (1, 10)],
    (24, (0.9,), {"every": 1}),
    *[(epochs, (0.8,), {"every": 1, **own}) for epochs in (6, 24, 72) for own in (LONGER, {"lr": 3e-5})],
    *[(epochs, (0.8,), {"every": 1, "score_lr": rate}) for epochs, rate in ((6, 1e-3), (6, 1e-1), (24, 1e-3))],
    (6, (0.8,), {"every": 1, "scope": "global"}),
]

# Prior annealing with σ0² from and to: the paper's for 90%; wider at the start, so that it holds 90% of MiniLM's
# weights as it should; much narrower, which Table 1 chose.
ANNEALED_ON = ("stsb", "mrpc")
SPIKES = ((1.4e-4, 3e-5), (2.6e-4, 3e-5), (1e-5, 1e-6))
SHORT, LONG = 8, 24  # epochs
NEARLY_NONE = 0.01  # so little is pruned that what is lost is lost to the prior

LR_POWER = 0.5  # of a rate that follows the share of weights left

# With a larger teacher, on the tasks where a taught model is to reach the dense one.
TAUGHT_ON = ("sst2", "stsb")
LARGER_TEACHER = "mpnet-base"
PUPILS: dict[str, tuple[dict[str, Any] | None, tuple[float, ...]]] = {
    "dense": (None, (0.0,)),
    "MGPP recommended": (RECOMMENDED, (0.9, 0.95)),
    "PLATON": ({"method": "platon", "beta2": 0.95}, (0.9, 0.95)),
}

# The same again without hurry, with the dense model of that length as a teacher and without one.
PATIENT = {"stsb": 24, "sst2": 6}  # epochs
FASTER = "MGPP recommended, faster"
UNHURRIED = {**PUPILS, FASTER: ({**RECOMMENDED, "lr_power": LR_POWER}, (0.9,))}
LEFT_OUT = {("stsb", f"{FASTER} + teacher")}
LEFT_OUT |= {("sst2", name + ending) for name in ("MGPP recommended", "PLATON") for ending in ("", " + teacher")}

# As many steps as those, of rows most of which have no label (unlabelled.py), with the best teacher that there is.
ANSWERED = {"sst2": 2, "stsb": 2}  # epochs, the longer first
ANSWERED_BY = "deberta-v3-xsmall"
ANSWERS: dict[str, tuple[dict[str, Any] | None, tuple[float, ...]]] = {
    "dense": (None, (0.0,)),
    FASTER: ({**RECOMMENDED, "lr_power": LR_POWER}, (0.9,)),
    "PLATON, faster": ({"method": "platon", "beta2": 0.95, "lr_power": LR_POWER}, (0.9,)),
}

# Those that chose the highest rate of their candidates.
HIGHER_OF = {
    "minilm": ("GMP", "L2", "PA", "ITP", "MGPP (paper)", "MGPP decoupled"),
    "mpnet-base": ("GMP", "L2", "PLATON", "MGPP recommended"),
    "deberta-v3-xsmall": ("GMP", "L2", "PLATON", "MGPP (paper)", "curvature, no prior", "MGPP recommended"),
}

# A learning rate that follows what is left, by (names, rates, powers, sparsities, seeds).
CLOSEST = ("MGPP recommended", "PLATON", "curvature, no prior")
FOLLOWED: dict[str, list[tuple[Sequence[str], Sequence[float], Sequence[float], Sequence[float], Sequence[int]]]] = {
    "minilm": [(CLOSEST, (1e-4,), (0.5, 1.0), (0.9, 0.95), (0, 1, 2))],
    "mpnet-base": [
        (CLOSEST[:2], (4e-5,), (0.5, 1.0), (0.9,), (0,)),
        (CLOSEST[2:], (4e-5,), (0.5,), (0.9,), (0,)),
    ],
    "deberta-v3-xsmall": [
        (CLOSEST, (5e-5,), (0.5, 1.0), (0.9,), (0,)),
        (CLOSEST, (1e-4, 2e-4), (0.5,), (0.9,), (0,)),
    ],
}
# With which rate: the dense model's, and on DeBERTa the one that did best with it on the held-out rows. And the seeds.
FASTER_AT = {"minilm": 1e-4, "mpnet-base": 4e-5, "deberta-v3-xsmall": 2e-4}
FASTER_SEEDS = {"minilm": (0, 1, 2, 3, 4, 5), "mpnet-base": (0, 1, 2), "deberta-v3-xsmall": (0, 1, 2)}

# What longer runs change for a larger model, on the task where the methods differ most.
LONGER_ON = "cola"
LONGER_OF: dict[str, dict[str, Any]] = {
    "GMP": {},
    "MGPP (paper)": {"strength": 1.0},
    "PLATON": {"beta2": 0.95},
    "MGPP recommended": {},
}


def movement(model: str) -> list[dict[str, Any]]:
    cells = []
    for epochs, sparsities, settings in MOVED:
        own = {"method": "movement", "scope": "layer", **settings}
        more = {"lr": own.pop("lr", RATES[model][1]), "held_out": True, "seed": 0}
        of_them = [cell("Movement study", model, "stsb", own, sparsity, **more) for sparsity in sparsities]
        cells += [{**each, "epochs": epochs} for each in of_them]
    return cells


def annealing(model: str) -> list[dict[str, Any]]:
    cells = []
    for task, epochs in product(ANNEALED_ON, (SHORT, LONG)):
        for rate in RATES[model][1:]:
            held = {"lr": rate, "held_out": True, "seed": 0}
            of_them = [
                cell("PA study", model, task, own, sparsity, **held, **more)
                for (first, last), sparsity in product(SPIKES, (NEARLY_NONE, 0.9))
                for own in [{"method": "prior_annealing", "spike_var_start": first, "spike_var_end": last}]
                for more in ({}, {"clip": None})
                if epochs == SHORT or sparsity == 0.9
            ]
            # What is cut at one blow without any prior: before the training, and where prior annealing does.
            of_them += [
                cell("PA study", model, task, {"method": "gmp", "start": start, "end": end}, 0.9, **held)
                for start, end in ((1, 2), (0.69, 0.7))
                if epochs == SHORT or start == 1
            ]
            cells += [{**each, "epochs": epochs} for each in of_them]
    first, last = SPIKES[0]
    weak = {"method": "prior_annealing", "spike_var_start": first, "spike_var_end": last, "strength": 0.1}
    held = {"lr": RATES[model][-1], "held_out": True, "seed": 0, "clip": None}
    of_them = [cell("PA study", model, "mrpc", weak, sparsity, **held) for sparsity in (NEARLY_NONE, 0.9)]
    return cells + [{**each, "epochs": SHORT} for each in of_them]


def clipping(model: str) -> list[dict[str, Any]]:
    """The candidates of Table 1 once more, which are clipped there."""
    name = "MGPP (paper)"
    method, settings = METHODS[name]
    told = {"held_out": True, "seed": 0, "clip": None}
    return [
        cell(f"{name}, not clipped", model, task, {**method, **own}, CHOOSE_AT, lr=rate, **told)
        for task, own, rate in product(CHOOSE_ON, settings, RATES[model])
    ]


def higher_rate(model: str) -> float:
    return 2 * RATES[model][-1]


def higher(model: str) -> list[dict[str, Any]]:
    """All candidates of these methods, as they were but for the rate."""
    told = {"lr": higher_rate(model), "held_out": True, "seed": 0}
    return [
        cell(name, model, task, {**METHODS[name][0], **own}, CHOOSE_AT, **told)
        for task, name in product(CHOOSE_ON, HIGHER_OF[model])
        for own in METHODS[name][1]
    ]


def chosen(model: str, name: str) -> dict[str, Any]:
    """The settings that Table 1 chose for one of CLOSEST: of PLATON's β2 the larger, but for DeBERTa."""
    method, settings = METHODS[name]
    return {**method, **settings[0 if model.startswith("deberta") else -1]}


def following(model: str) -> list[dict[str, Any]]:
    """On the held-out rows, with what else these methods have chosen."""
    return [
        cell(name, model, task, chosen(model, name), sparsity, lr=rate, held_out=True, seed=seed, follow=power)
        for names, rates, powers, sparsities, seeds in FOLLOWED[model]
        for task, name, rate, power, sparsity, seed in product(CHOOSE_ON, names, rates, powers, sparsities, seeds)
    ]


def faster(model: str) -> list[dict[str, Any]]:
    """On the validation sets: wherever the same rows stand in Table 1, or were run with more seeds."""
    return [
        _faster(name, model, task, sparsity, seed)
        for seed, task, name in product(FASTER_SEEDS[model], planned(model).tasks, CLOSEST)
        for sparsity in planned(model, "table" if seed in planned(model).seeds else "seeds").sparsities
    ]


def faster2(model: str) -> list[dict[str, Any]]:
    return _faster_in(model, "table2")


def faster5(model: str) -> list[dict[str, Any]]:
    return _faster_in(model, "fifth")


def _faster_in(model: str, which: str) -> list[dict[str, Any]]:
    of = planned(model, which)
    return [
        _faster(name, model, task, sparsity, seed)
        for seed, task, name, sparsity in product(of.seeds, of.tasks, CLOSEST, of.sparsities)
    ]


def _faster(name: str, model: str, task: str, sparsity: float, seed: int) -> dict[str, Any]:
    method = {**chosen(model, name), "lr_power": LR_POWER}
    return cell(name, model, task, method, sparsity, lr=FASTER_AT[model], seed=seed)


def longer(model: str) -> list[dict[str, Any]]:
    """Candidates of Table 1, of each method one with its rates, in longer runs."""
    told = {"held_out": True, "seed": 0}
    cells = [
        cell(name, model, LONGER_ON, {**METHODS[name][0], **own}, CHOOSE_AT, lr=rate, **told)
        for (name, own), rate in product(LONGER_OF.items(), RATES[model][1:])
    ]
    return [{**each, "epochs": LONG} for each in cells]


def taught(model: str) -> list[dict[str, Any]]:
    """On the validation sets; the rates are the middle ones, which the dense models and these methods chose."""
    seeds, rate = TABLES["table"].seeds, RATES[LARGER_TEACHER][1]
    teachers = [
        cell("teacher", LARGER_TEACHER, task, None, 0.0, lr=rate, seed=seed) for task, seed in product(TAUGHT_ON, seeds)
    ]
    teacher = {**TEACHER, "model": LARGER_TEACHER, "lr": rate}
    return teachers + [
        cell(name, model, task, method, sparsity, lr=RATES[model][1], seed=seed, teacher=teacher)
        for task, (name, (method, sparsities)) in product(TAUGHT_ON, PUPILS.items())
        for sparsity, seed in product(sparsities, seeds)
    ]


def patient(model: str) -> list[dict[str, Any]]:
    """At the middle rate, as there. The dense models come first: they are the teachers."""
    rate = RATES[model][1]
    teacher = {**TEACHER, "lr": rate}
    cells = []
    for task, epochs in PATIENT.items():
        of_task = [
            cell(f"{name}{ending}", model, task, method, sparsities[0], lr=rate, seed=seed, **more)
            for name, (method, sparsities) in UNHURRIED.items()
            for ending, more in (("", {}), (" + teacher", {"teacher": teacher}))
            if (method is not None or not more) and (task, name + ending) not in LEFT_OUT
            for seed in TABLES["table"].seeds
        ]
        cells += [{**each, "epochs": epochs} for each in of_task]
    return cells


def unlabelled(model: str) -> list[dict[str, Any]]:
    """At the middle rate, as there; the teachers at what was chosen for them. They come first, and learn from rows that
    have labels alone; so does one pupil, for as many steps."""
    rate, teachers_rate, seeds = RATES[model][1], RATES[ANSWERED_BY][0], TABLES["table"].seeds
    more = {"unlabelled": True}
    cells = [
        cell("teacher", ANSWERED_BY, task, None, 0.0, lr=teachers_rate, seed=seed, **more)
        for task, seed in product(ANSWERED, seeds)
    ]
    for task, epochs in ANSWERED.items():
        teacher = {**TEACHER, "model": ANSWERED_BY, "lr": teachers_rate, "epochs": EPOCHS[task], **more}
        of_task = [
            {**cell(name, model, task, method, sparsity, lr=rate, seed=seed, teacher=teacher, **more), "epochs": epochs}
            for name, (method, sparsities) in ANSWERS.items()
            for sparsity, seed in product(sparsities, seeds)
        ]
        method, (sparsity, *_) = ANSWERS[FASTER]
        alone = [cell(FASTER, model, task, method, sparsity, lr=rate, seed=seed, teacher=teacher) for seed in seeds]
        cells += of_task + [{**each, "epochs": PATIENT[task]} for each in alone]
    return cells


ALL = (movement, annealing, clipping, higher, following, faster, faster2, faster5, longer, taught, patient, unlabelled)
STUDIES = {study.__name__: study for study in ALL}

if __name__ == "__main__":
    what, model, path = sys.argv[1:]
    Path(path).write_text(json.dumps(STUDIES[what](model), indent=0), encoding="utf-8")
