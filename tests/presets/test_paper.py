"""Every number of every preset is the paper's, or a departure that is written down here and explained in the file."""

import re
from dataclasses import dataclass, field

import pytest

from mgpp.presets import load_preset, names
from tests.presets import paper

GLUE = ("mnli", "rte", "qnli", "mrpc", "qqp", "sst2", "cola", "stsb")
ALL = (0.8, 0.85, 0.9)

# The rows of the data sets as they are on the hub; the paper rounds them.
ROWS = {
    "mnli": 392_702,
    "rte": 2_490,
    "qnli": 104_743,
    "mrpc": 3_668,
    "qqp": 363_846,
    "sst2": 67_349,
    "cola": 8_551,
    "stsb": 5_749,
    "squad": 87_599,
    "xsum": 204_045,
    "cnn-dailymail": 287_113,
}

# What the paper has, and what the preset does instead. METHODS of the project's notes decided each.
DEPARTURES = {
    ("deberta-v3-base/cola", "epochs"): (5, 15),
    ("deberta-v3-base/stsb", "epochs"): (5, 15),
    ("deberta-v3-base/l2-mrpc", "start"): (1000, 920),
    ("deberta-v3-base/l2-mrpc", "end"): (2500, 2300),
    ("deberta-v3-base/pa-mrpc", "start", 0.8): (1000, 690),
    ("deberta-v3-base/pa-mrpc", "end", 0.8): (3000, 2070),
    ("deberta-v3-base/pa-mrpc", "start", 0.85): (1000, 828),
    ("deberta-v3-base/pa-mrpc", "end", 0.85): (2500, 2070),
    ("deberta-v3-base/pa-mrpc", "start", 0.9): (1000, 690),
    ("deberta-v3-base/pa-mrpc", "end", 0.9): (3000, 2070),
    ("deberta-v3-base/pa-sst2", "start"): (1500, 1316),
    ("deberta-v3-base/pa-sst2", "end"): (12000, 10525),
}
# Named in the file's `why` though the number is the paper's, or the paper has none.
NOTED = {
    "deberta-v3-base/mrpc": "end = 2300",
    "deberta-v3-base/stsb": "examples = 5749",
    "deberta-v3-base/qnli": "examples = 104743",
    "deberta-v3-base/pa-sst2": "slab_var = 0.5",
    "deberta-v3-base/mnli": "32 against 256",
    "bert-base/mnli": "end = 1.0",
    "bert-base/upstream": "5e-4",
    "bart-large/xsum": "beams = 8",
    "bart-large/cnn-dailymail": "beams = 8",
}


@dataclass(frozen=True)
class Row:
    """A preset, and the paper's numbers for it at one sparsity (None: nothing is pruned)."""

    preset: str
    sparsity: float | None
    numbers: dict
    method: str | None = "mgpp"
    more: dict = field(default_factory=dict)

    def __str__(self) -> str:
        return self.preset if self.sparsity is None else f"{self.preset}@{self.sparsity:g}"


def rows() -> list[Row]:
    prior = {"slab_prob": paper.SLAB_PROB}
    found = [
        Row(f"deberta-v3-base/{task}", at, {**paper.column(paper.A2, task, at), **prior}) for task in GLUE for at in ALL
    ]
    for task in ("mnli", "qqp", "qnli", "squad", "sst2"):
        found += [Row(f"bert-base/{task}", at, paper.column(paper.A3, task)) for at in paper.A3_SPARSITIES]
    for at in ("0.5", "0.6", "0.7", "0.8", "0.9", "0.95"):
        found.append(Row("deberta-v3-base/squad", float(at), {**paper.column(paper.A4, at), **prior}))
    for task in ("xsum", "cnn-dailymail"):
        numbers = {**paper.column(paper.A5, task), **prior}
        found += [Row(f"bart-large/{task}", at, numbers) for at in paper.A5_SPARSITIES]
    mnli = paper.column(paper.A3, "mnli")
    upstream = {**paper.column(paper.UPSTREAM, "upstream"), **{key: mnli[key] for key in paper.UPSTREAM_FROM_MNLI}}
    found += [Row("bert-base/upstream", at, upstream) for at in paper.UPSTREAM_SPARSITIES]
    for task in ("mnli", "qnli", "qqp", "sst2"):
        numbers = paper.column(paper.SPARSE_FINE_TUNING, task)
        found.append(Row(f"bert-base/upstream-{task}", None, numbers, method="hold_mask"))
    for task in ("mnli", "mrpc", "sst2"):
        numbers = paper.column(paper.A6, task)
        found += [Row(f"deberta-v3-base/l2-{task}", at, numbers, method="l2") for at in paper.A6_SPARSITIES]
        for at in ALL:
            numbers = paper.column(paper.A7, task, at)
            found.append(Row(f"deberta-v3-base/pa-{task}", at, numbers, method="prior_annealing"))
    return found


ROWS_OF_THE_PAPER = rows()
OURS = {"smollm2-135m/clm", "llama-3.2-1b/clm"}


def departed(row: Row) -> dict:
    numbers = dict(row.numbers)
    for (preset, key, *at), (printed, instead) in DEPARTURES.items():
        if preset == row.preset and at in ([], [row.sparsity]):
            assert numbers[key] == printed, "the departure starts from another number than the paper's"
            numbers[key] = instead
    return numbers


def said(row: Row) -> dict:
    """The preset's numbers by the names of the paper's tables."""
    preset = load_preset(row.preset)
    config = preset.config(row.sparsity)
    method = config.method
    found = {
        "epochs": config.epochs,
        "batch_size": config.batch_size * config.accumulate,
        "learning_rate": config.learning_rate,
        "last_learning_rate": config.learning_rate * config.lr_end,
        "max_length": config.max_length,
        "beams": config.beams,
    }
    names = (
        "start",
        "end",
        "every",
        "slab_prob",
        "spike_var",
        "slab_var",
        "weight",
        "spike_var_start",
        "spike_var_end",
    )
    found |= {name: getattr(method, name) for name in names if hasattr(method, name)}
    if row.method == "prior_annealing":
        annealing = int(method.prune_at.removesuffix("ep"))
        found |= {"annealing_epochs": annealing, "refining_epochs": config.epochs - annealing}
        found["refining_batch_size"] = config.batch_size
    return found


@pytest.mark.parametrize("row", ROWS_OF_THE_PAPER, ids=str)
def test_every_number_is_the_papers_or_a_departure_that_is_written_down(row):
    preset, found = load_preset(row.preset), said(row)
    assert (preset.method or {}).get("method") == row.method
    assert row.sparsity is None or row.sparsity in preset.sparsities
    asked = departed(row)
    asked.pop("temperature", None)  # of the sampler's noise, and AdamW has none
    assert asked == {
        key: pytest.approx(found[key], rel=1e-12) if is_number(found[key]) else found[key] for key in asked
    }


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def test_there_is_a_preset_for_every_row_and_none_beside_but_ours():
    assert set(names()) == {row.preset for row in ROWS_OF_THE_PAPER} | OURS
    for name in names():
        expected = {row.sparsity for row in ROWS_OF_THE_PAPER if row.preset == name} - {None}
        if name not in OURS:
            assert set(load_preset(name).sparsities) == expected


@pytest.mark.parametrize("name", sorted({key[0] for key in DEPARTURES}))
def test_every_departure_is_explained_in_its_file(name):
    why = " ".join(load_preset(name).why)
    for (preset, key, *_), (printed, instead) in DEPARTURES.items():
        if preset == name:
            assert key in why
            assert str(printed) in why
            assert str(instead) in why or "scaled" in why


@pytest.mark.parametrize(("name", "words"), NOTED.items())
def test_what_the_paper_leaves_open_is_said_in_the_file(name, words):
    assert words in " ".join(load_preset(name).why)


def test_ours_are_not_taken_for_the_papers():
    assert {name for name in names() if "not the paper's" in load_preset(name).source} == OURS


@pytest.mark.parametrize("name", sorted({row.preset for row in ROWS_OF_THE_PAPER} - {"bert-base/upstream"}))
def test_the_ramp_fits_the_run_on_the_data_that_the_preset_names(name):
    preset = load_preset(name)
    task = re.sub(r"^(l2|pa|upstream)-", "", name.partition("/")[2])
    assert preset.examples == ROWS[task]
    rounded = paper.TRAIN_SIZES.get(task)
    if rounded is not None and task not in ("stsb", "qnli"):  # both are said in the file
        assert preset.examples == pytest.approx(float(rounded.removesuffix("k")) * 1000, rel=0.01)
    for sparsity in preset.sparsities:
        length = preset.length(sparsity)
        schedule = preset.config(sparsity).method.recipe(length).schedule
        assert 0 < schedule.start < schedule.end <= length.total_steps


def test_steps_are_those_that_the_tables_imply():
    assert load_preset("deberta-v3-base/mnli").length(0.9).total_steps == 98_176
    assert load_preset("deberta-v3-base/mrpc").length(0.9).total_steps == 2_300
    mnli = load_preset("bert-base/mnli")
    schedule = mnli.config(0.9).method.recipe(mnli.length(0.9)).schedule
    assert (schedule.start, schedule.end) == (12_272, 98_176)  # one epoch, and no t_f
