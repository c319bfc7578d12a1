"""Tables say what the results say, of any part of the cells, and how much is missing."""

import json
import re

import pytest
import torch
from experiments.glue import grid, studies
from experiments.glue.apart import differences
from experiments.pages import cells, glue, seeds, single
from experiments.pages.summary import BRIEF
from experiments.tables import MAKERS, fill
from transformers import AutoConfig, AutoModelForSequenceClassification

from mgpp.bench import overhead
from mgpp.targets import find_targets

MADE_ON = {"versions": {"torch": "0"}, "hardware": {"gpu": "a card", "processor": ""}, "commit": "0123456789"}
TABLE1, TABLE2 = grid.TABLES["table"], grid.TABLES["table2"]
METRICS = {"cola": "matthews", "stsb": "pearson"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    return tmp_path


def line_of(cell: dict, score: float, **more) -> dict:
    metric = METRICS.get(cell["task"], "accuracy")
    part = "held_out" if cell.get("held_out") else "validation"
    scores = {"accuracy": 0.5, "f1": 0.25, "spearman": 0.125, metric: score}
    memory = {"memory": 12 * glue.PRUNABLE["minilm"]} if cell["name"] == "PLATON" else {}
    return {"cell": cell, "metrics": {part: scores}, "metric": metric, **memory, **MADE_ON, **more}


def write(folder, what: str, lines: list[dict], model: str = "minilm") -> None:
    (folder / f"{model}-{what}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def choose(folder, which: str = "table", **scores: float) -> list[dict]:
    """All candidates at 0.5, but for the methods given, whose lowest rate is best; the cells of a table."""
    lines = [
        line_of(cell, scores.get(cell["name"], 0.5) - (cell["lr"] != 5e-5) / 10) for cell in grid.candidates("minilm")
    ]
    write(folder, "choose", lines)
    return grid.table("minilm", grid.best(lines), which)


def rows_of(text: str) -> list[list[str]]:
    return [[part.strip() for part in re.split(r"(?<!\\)\|", row)[1:-1]] for row in re.findall(r"^\|.*", text, re.M)]


def row_of(text: str, name: str, table: int = 0) -> list[str]:
    return [row for row in rows_of(text) if row[0] == name][table]


def test_a_finished_table_has_means_deviations_bytes_and_the_best_in_bold(results):
    planned = choose(results)
    best = {"PLATON": 0.8, "dense": 0.9, "PLATON + teacher": 0.85}
    write(results, "table", [line_of(cell, best.get(cell["name"], 0.7) + cell["seed"] / 100) for cell in planned])
    text = MAKERS["table1"]("minilm")
    assert "Not all" not in text
    assert [row[0] for row in rows_of(text)].count("dense") == len(TABLE1.sparsities)
    tasks = len(TABLE1.tasks)
    assert rows_of(text)[0][1] == "CoLA, matthews"
    assert row_of(text, "PLATON")[1:-1] == ["**81.0 ± 1.0**"] * (tasks + 1) + ["12"]
    assert row_of(text, "PLATON + teacher")[1:-1] == ["86.0 ± 1.0"] * (tasks + 1) + ["0"]
    assert row_of(text, "dense")[tasks + 1] == "91.0 ± 1.0"
    assert text.count("**") == 2 * (tasks + 1) * len(TABLE1.sparsities)
    assert "commit 0123456: a card, torch 0." in text


def test_in_short_a_method_has_its_means_its_bytes_and_what_the_paper_reports(results):
    planned = choose(results)
    lacking = [cell for cell in planned if (cell["name"], cell["task"]) != ("GMP", "rte")]
    write(results, "table", [line_of(cell, 0.7 + cell["seed"] / 100) for cell in lacking])
    rows = {name: row for name, *row in rows_of(MAKERS["summary"]("minilm"))}
    assert rows["PLATON"] == [*["71.0 ± 1.0"] * 3, "12", ""]
    assert rows["MGPP (paper)"] == [*["71.0 ± 1.0"] * 3, "0", "74.8"]  # of 48.0, 82.6, 87.2, 66.2 and 90.2
    assert rows["Movement"][-1] == rows["ITP"][-1] == ""  # did not converge on some
    assert "GMP" not in rows
    brief = [name for name, *_ in rows_of(MAKERS["summary"]("minilm", "brief"))[2:]]
    assert brief == [name for name in BRIEF.values() if name in brief]
    assert {"dense", "PLATON", "oBERT", "`mgpp.MGPP()`, the paper's"} < set(brief)
    assert not {"GMP", "MGPP curvature", "**`mgpp.recommended()`**"} & set(
        brief
    )  # that was run faster, which none was here
    assert row_of(MAKERS["summary"]("minilm", "brief"), "PLATON")[1:] == rows["PLATON"]


def test_in_short_a_table_of_fewer_tasks_has_the_papers_mean_over_these(results):
    chosen = [line_of(cell, 0.5) for cell in grid.candidates("mpnet-base")]
    lines = [line_of(cell, 0.7) for cell in grid.table("mpnet-base", grid.best(chosen))]
    write(results, "choose", chosen, "mpnet-base")
    write(results, "table", lines, "mpnet-base")
    rows = {name: row for name, *row in rows_of(MAKERS["summary"]("mpnet-base"))}
    assert rows["MGPP (paper)"] == [*["70.0 ± 0.0"] * 2, "0", "71.0"]  # of 48.0, 82.6, 87.2 and 66.2


def test_the_second_table_has_its_own_tasks_methods_and_seeds(results):
    planned = choose(results, "table2")
    assert len(planned) == TABLE2.size == 72
    write(results, "table", [line_of(cell, 0.1) for cell in choose(results)])
    write(results, "table2", [line_of(cell, 0.7 + cell["seed"] / 100) for cell in planned])
    text = MAKERS["table2"]("minilm")
    assert "Not all" not in text
    head, _, *rows = rows_of(text)
    assert head[1:5] == ["MNLI, accuracy", "QNLI, accuracy", "QQP, accuracy", "mean"]
    assert [row[0] for row in rows] == ["dense", *TABLE2.names]
    assert row_of(text, "GMP")[1:5] == ["**71.0 ± 1.0**"] * 4
    assert "minilm-table2.jsonl" in text


def test_an_unfinished_table_says_what_is_missing(results):
    planned = choose(results)
    run = [cell for cell in planned if cell["seed"] == 0 or (cell["seed"] == 1 and cell["task"] != "sst2")]
    run = [cell for cell in run if cell["name"] in ("dense", "GMP")]
    write(results, "table", [line_of(cell, 0.6) for cell in run])
    text = MAKERS["table1"]("minilm")
    assert text.startswith(f"Not all cells have been run yet: {len(run)} of {len(planned)}.")
    assert row_of(text, "GMP")[1:7] == [*["60.0 ± 0.0 (2)"] * 4, "60.0 (1)", "60.0 (1)"]
    assert set(row_of(text, "L2")[1:8]) == {""}
    assert "**" not in text


def test_no_mean_stands_where_a_method_lacks_a_task_that_others_have(results):
    planned = choose(results)
    lacking = [cell for cell in planned if (cell["name"], cell["task"]) != ("PLATON", "rte")]
    write(results, "table", [line_of(cell, 0.6) for cell in lacking])
    row = row_of(MAKERS["table1"]("minilm"), "PLATON")
    assert row[TABLE1.tasks.index("rte") + 1] == row[len(TABLE1.tasks) + 1] == ""


def test_a_task_that_nobody_has_is_left_out_and_said_to_be(results):
    planned = choose(results)
    write(results, "table", [line_of(cell, 0.6) for cell in planned if cell["task"] != "rte"])
    text = MAKERS["table1"]("minilm")
    assert "Means are without RTE, of which none has." in text
    assert "RTE" not in text.split("80%:")[1]
    assert row_of(text, "PLATON")[len(TABLE1.tasks)] == "**60.0 ± 0.0**"


def test_nothing_is_best_while_a_rival_lacks_seeds(results):
    run = [cell for cell in choose(results) if cell["name"] == "GMP" or (cell["name"], cell["seed"]) == ("L2", 0)]
    write(results, "table", [line_of(cell, 0.6) for cell in run])
    assert "**" not in MAKERS["table1"]("minilm")
    write(results, "table", [line_of(cell, 0.6) for cell in run if cell["name"] == "GMP"])
    assert row_of(MAKERS["table1"]("minilm"), "GMP")[1] == "**60.0 ± 0.0**"


def test_lines_of_settings_that_were_not_chosen_stay_out(results):
    planned = choose(results)
    others = [{**cell, "lr": 1.0} for cell in planned]
    write(results, "table", [line_of(cell, 0.6) for cell in others])
    assert MAKERS["table1"]("minilm") == f"Not all cells have been run yet: 0 of {len(planned)}."


def test_of_a_cell_that_was_run_twice_the_last_counts_and_a_failure_does_not(results):
    planned = choose(results)
    once = [line_of(cell, 0.2) for cell in planned]
    failed = [{"cell": cell, "error": "out of memory"} for cell in planned]
    write(results, "table", [*once, *[line_of(cell, 0.6) for cell in planned], *failed])
    assert row_of(MAKERS["table1"]("minilm"), "GMP")[1] == "**60.0 ± 0.0**"


def test_a_step_has_the_time_of_the_benchmarks_side(results, tmp_path, monkeypatch):
    sides = {"plain": 1.0, "plain, mgpp.AdamW": 2.0, "gmp": 3.0, "mgpp curvature decoupled, mgpp.AdamW": 4.0}
    measured = {"command": "mgpp bench", **MADE_ON, "rows": [{"name": n, "device_ms": ms} for n, ms in sides.items()]}
    (tmp_path / "steps.json").write_text(json.dumps([{}, measured]))
    later = [{"name": name, "device_ms": 9.0} for name in ("gmp", "recommended, mgpp.AdamW")]
    (tmp_path / "later.json").write_text(json.dumps([{**measured, "command": "mgpp bench again", "rows": later}]))
    monkeypatch.setattr(glue, "STEPS", (tmp_path / "steps.json", tmp_path / "later.json"))
    write(results, "table", [line_of(cell, 0.6) for cell in choose(results)])
    write(results, "faster", [line_of(cell, 0.6) for cell in studies.faster("minilm")])
    text = MAKERS["table1"]("minilm")
    expected = {"dense": "2.0", "GMP": "3.0", "MGPP curvature": "4.0", "MGPP recommended + teacher": "", "oBERT": ""}
    expected |= {"MGPP recommended, faster": "9.0", "PLATON, faster": ""}
    assert {name: row_of(text, name)[-1] for name in expected} == expected
    assert "ms a step: `mgpp bench`" in text
    assert "of what it does not name: `mgpp bench again`" in text


@pytest.mark.parametrize("name", ["dense", *grid.METHODS, studies.FASTER])
def test_every_row_that_has_a_step_of_its_own_is_a_side_of_the_benchmark(name):
    side = glue._side(name)
    measured = overhead._sides(torch.device("cpu"), naive=False)
    assert side in measured or f"{side}, mgpp.AdamW" in measured


def test_the_chosen_settings_are_those_with_the_best_mean(results):
    choose(results, PLATON=0.75)
    text = MAKERS["chosen"]("minilm")
    assert "Not all" not in text
    assert row_of(text, "PLATON")[1:] == ["5e-05", "beta2 0.85", "75.0", "6"]
    assert row_of(text, "dense")[1:] == ["5e-05", "", "50.0", "3"]
    assert row_of(text, "PA")[2] == "spike_var_start as by default, spike_var_end as by default"


def test_candidates_that_were_not_run_are_counted(results):
    lines = [line_of(cell, 0.5) for cell in grid.candidates("minilm") if cell["lr"] == 1e-4]
    write(results, "choose", lines)
    text = MAKERS["chosen"]("minilm")
    assert text.startswith("Not all cells")
    assert row_of(text, "PLATON")[4] == "2 of 6 run"


def test_an_ablation_stands_beside_what_it_changes(results):
    planned = grid.candidates("minilm")
    scores = {"spike 1e-7": 0.75, "curvature, no prior": 0.625, "posterior, n": 0.75}
    write(results, "choose", [line_of(cell, scores.get(cell["name"], 0.5)) for cell in planned])
    text = MAKERS["ablations"]("minilm")
    assert "Not all" not in text
    assert row_of(text, "spike 1e-7")[1:] == ["75.0", "75.0", "75.0", "75.0", "+25.0"]
    assert row_of(text, "curvature, no prior")[5] == "+12.5"
    assert row_of(text, "posterior, n")[5] == "+12.5"  # from the same score without a prior
    names = [row[0] for row in rows_of(text)]
    assert names.index("PA, not clipped") == names.index("**PA**") + 1
    assert {name.replace("|", r"\|") for name in grid.TRIED} <= set(names)


def test_of_settings_that_were_run_under_two_names_an_ablation_has_its_own(results):
    lines = [line_of(cell, 0.5) for cell in grid.candidates("minilm")]
    again = [
        line_of({**line["cell"], "name": "again"}, 0.9)
        for line in lines
        if line["cell"]["name"] == "an event at every step"
    ]
    write(results, "choose", [*lines, *again])
    assert row_of(MAKERS["ablations"]("minilm"), "an event at every step")[4] == "50.0"


def test_a_sweep_has_every_value_of_one_setting(results):
    lines = [line_of(cell, 0.5) for cell in grid.candidates("minilm")]
    write(results, "choose", lines)
    expected = {"spike_var": [1e-11, 1e-9, 1e-7], "slab_prob": [1e-12, 1e-7, 1e-4], "lr": [5e-5, 1e-4, 2e-4]}
    for setting, values in expected.items():
        rows = rows_of(MAKERS["sweep"]("minilm", setting))[2:]
        assert [row[0] for row in rows] == [f"`{setting}={value:g}`" for value in values]
        assert {tuple(row[1:]) for row in rows} == {("50.0",) * 4}
    write(results, "choose", [line for line in lines if line["cell"]["task"] == "cola"])
    text = MAKERS["sweep"]("minilm", "spike_var")
    assert text.startswith("Not all cells have been run yet: 3 of 9.")
    assert rows_of(text)[2][1:] == ["", "50.0", "", ""]


def test_ours_stand_under_the_papers_in_the_papers_metrics(results):
    alone = rows_of(MAKERS["paper"]("minilm"))
    assert ["90%", "MGPP", "DeBERTaV3-base", "48.0", "82.6/87.1", "87.2/86.7", "66.2", "90.2"] in alone
    write(results, "table", [line_of(cell, 0.6) for cell in choose(results)])
    rows = rows_of(MAKERS["paper"]("minilm"))
    ours = [row[:2] for row in rows if row[2] == "minilm, here"]
    assert ["80%", "MvP"] in ours
    assert not any(sparsity == "85%" for sparsity, _ in ours)
    here = next(row for row in rows if row[:3] == ["90%", "MGPP", "minilm, here"])
    assert here[3:] == ["60.0", "60.0/25.0", "60.0/12.5", "60.0", "60.0"]


@pytest.mark.parametrize(
    "maker",
    [
        "summary", "table1", "table2", "seeds", "chosen", "ablations", "varied", "figure2", "sweep", "candidates",
        "movement", "cut", "annealing", "gradients", "clipping", "higher", "following", "faster", "longer",
        "taught", "patient", "unlabelled", "fifth",
    ],
)  # fmt: skip
def test_without_results_every_maker_says_so(results, maker):
    words = {"sweep": ["lr"], "candidates": ["stsb"]}.get(maker, [])
    models = [grid.WITH_ALL] if maker in ("ablations", "varied", "sweep") else grid.RATES
    for model in [model for model in models if maker != "fifth" or model != grid.WITH_ALL]:
        assert MAKERS[maker](model, *words).startswith("Not all cells have been run yet: 0 of ")


def test_longer_runs_stand_beside_the_candidates_of_the_usual_length(results):
    choose(results)
    cells = studies.longer("minilm")
    write(results, "longer", [line_of(cell, 0.6) for cell in cells])
    text = MAKERS["longer"]("minilm")
    assert "Not all" not in text
    head, _, *rows = rows_of(text)
    assert head[1:] == [f"{epochs} epochs, {rate}" for epochs in (6, 24) for rate in ("0.0001", "0.0002")]
    assert [row[0] for row in rows[:3]] == ["GMP", "MGPP (paper)", "PLATON"]
    assert all(row[1:] == ["40.0", "40.0", "60.0", "60.0"] for row in rows)


def test_a_larger_teacher_stands_beside_none_and_one_as_large(results):
    table = choose(results)
    write(results, "table", [line_of(cell, 0.7 if cell.get("teacher") else 0.6) for cell in table])
    cells = studies.taught("minilm")
    write(results, "taught", [line_of(cell, 0.9 if cell["name"] == "teacher" else 0.8) for cell in cells])
    text = MAKERS["taught"]("minilm")
    assert "Not all" not in text
    head, _, teacher, *rows = rows_of(text)
    assert head[3:] == ["SST-2, accuracy", "STS-B, pearson"]
    assert teacher == ["mpnet-base", "0%", "none", *["90.0 ± 0.0"] * 2]
    platon = {row[2]: row[3:] for row in rows if row[:2] == ["PLATON", "95%"]}
    assert platon == {
        "none": ["60.0 ± 0.0"] * 2,
        "as large": ["70.0 ± 0.0"] * 2,
        "mpnet-base": ["80.0 ± 0.0"] * 2,
    }
    assert [row[2] for row in rows if row[0] == "dense"] == ["none", "mpnet-base"]
    write(results, "taught", [line_of(cell, 0.8) for cell in cells if cell["task"] == "stsb" and cell["seed"] == 0])
    assert row_of(MAKERS["taught"]("minilm"), "PLATON", 2)[3:] == ["", "80.0 (1)"]


def test_candidates_at_a_higher_rate_stand_beside_the_others(results):
    choose(results)
    write(results, "higher", [line_of(cell, 0.7) for cell in studies.higher("minilm")])
    text = MAKERS["higher"]("minilm")
    assert "Not all" not in text
    assert rows_of(text)[0][2:] == ["5e-05", "0.0001", "0.0002", "0.0004"]
    assert row_of(text, "GMP")[1:] == ["", "50.0", "40.0", "40.0", "70.0"]
    assert row_of(text, "L2", 1)[1] == "weight 0.001"
    some = [line_of(cell, 0.7) for cell in studies.higher("minilm") if cell["task"] != "mrpc"]
    write(results, "higher", some)
    assert row_of(MAKERS["higher"]("minilm"), "GMP")[-1] == ""  # no mean of two tasks


def test_powers_of_what_is_left_stand_beside_the_same_cells_without_one(results):
    """Those are candidates with one seed, and variations with three, where the score alone has another name."""
    choose(results)
    write(results, "vary", [line_of(cell, 0.5 + cell["seed"] / 100) for cell in grid.varied("minilm")])
    cells = studies.following("minilm")
    write(results, "following", [line_of(cell, 0.6 + cell["follow"] / 10) for cell in cells])
    text = MAKERS["following"]("minilm")
    assert "Not all" not in text
    assert rows_of(text)[0][3:] == ["lr_power 0", "lr_power 0.5", "lr_power 1"]
    at_95 = [row for row in rows_of(text) if row[1] == "95%"]
    assert {row[0] for row in at_95} == set(studies.CLOSEST)
    assert all(row[3:] == ["51.0 ± 1.0", "65.0 ± 0.0", "70.0 ± 0.0"] for row in at_95)
    some = [line_of(cell, 0.6) for cell in cells if cell["task"] != "mrpc" or cell["seed"] == 0]
    write(results, "following", some)
    assert rows_of(MAKERS["following"]("minilm"))[2][4] == "60.0 (1)"  # no mean of two tasks


def test_of_a_model_with_one_seed_a_power_that_was_not_run_stays_empty(results):
    cells = studies.following("mpnet-base")
    write(results, "following", [line_of(cell, 0.6) for cell in cells], "mpnet-base")
    assert row_of(MAKERS["following"]("mpnet-base"), "curvature, no prior")[3:] == ["", "60.0", ""]


def test_rows_that_learn_faster_stand_beside_those_of_table_1_with_the_same_seeds(results):
    for which in ("table", "seeds"):
        table = choose(results, which)
        write(results, which, [line_of(cell, 0.6 + cell["seed"] / 100) for cell in table])
    better = {"curvature, no prior": 0.75}
    cells = studies.faster("minilm")
    assert {cell["method"]["lr_power"] for cell in cells} == {studies.LR_POWER}
    write(results, "faster", [line_of(cell, better.get(cell["name"], 0.7)) for cell in cells])
    text = MAKERS["faster"]("minilm")
    assert "Not all" not in text
    at_90 = [row for row in rows_of(text) if row[1] == "90%"]
    assert [row[0] for row in at_90[::2]] == ["PLATON", "curvature, no prior", "MGPP recommended"]
    assert [row[2] for row in at_90] == ["0", "0.5"] * 3
    assert [row[-3] for row in at_90] == [
        *["62.5 ± 1.9", "70.0 ± 0.0"],
        *["62.5 ± 1.9", "75.0 ± 0.0"],
        *["62.5 ± 1.9", "70.0 ± 0.0"],
    ]
    assert [row[-2] for row in at_90] == ["", "+7.5 ± 0.8", "+0.0 ± 0.0", "+12.5 ± 0.8", "+0.0 ± 0.0", "+7.5 ± 0.8"]
    assert [row[-1] for row in at_90] == ["-7.5 ± 0.8", "", "-7.5 ± 0.8", "+5.0 ± 0.0", "-7.5 ± 0.8", "+0.0 ± 0.0"]
    head, _, *rows = rows_of(MAKERS["gained"]("score"))
    assert head[3:] == [
        "dense", "PLATON", "PLATON, faster", "curvature, no prior", "curvature, no prior, faster",
        "faster to PLATON", "faster to PLATON, faster",
    ]  # fmt: skip
    means = ["62.5", "62.5", "70.0", "62.5", "75.0"]
    assert rows[0] == ["minilm", "6", "90%", *means, "+12.5 ± 0.8", "+5.0 ± 0.0"]
    assert rows_of(MAKERS["gained"]())[2][6:] == ["62.5", "70.0", "+7.5 ± 0.8", "+0.0 ± 0.0"]
    head, _, *rows = rows_of(MAKERS["gained"]("brief"))
    assert head[3:] == [
        "dense", "PLATON", "PLATON, `lr_power=0.5`", "**`mgpp.recommended()`**",
        "above PLATON", "above PLATON, `lr_power=0.5`",
    ]  # fmt: skip
    assert rows[0] == ["minilm", "6", "90%", "62.5", "62.5", "70.0", "70.0", "+7.5 ± 0.8", "+0.0 ± 0.0"]
    at_80 = [row for row in rows_of(text) if row[1] == "80%"]
    assert [row[-3] for row in at_80] == [
        *["61.0 ± 1.0", "70.0 ± 0.0"],  # of the table's three seeds
        *["61.0 ± 1.0", "75.0 ± 0.0"],
        *["61.0 ± 1.0", "70.0 ± 0.0"],
    ]
    write(results, "faster", [line_of(cell, 0.7) for cell in cells if cell["seed"] < 4])
    shown = [row for row in rows_of(MAKERS["faster"]("minilm")) if row[1:3] == ["90%", "0.5"]]
    assert shown[0][-3] == "70.0 ± 0.0 (4)"


@pytest.mark.parametrize(("table", "which", "study"), [("table1", "table", "faster"), ("table2", "table2", "faster2")])
def test_a_row_that_was_run_faster_stands_under_itself_with_the_tables_seeds(results, table, which, study):
    write(results, which, [line_of(cell, 0.6) for cell in choose(results, which)])
    assert not [row for row in rows_of(MAKERS[table]("minilm")) if row[0].endswith(", faster")]
    cells = studies.STUDIES[study]("minilm")
    write(results, study, [line_of(cell, 0.1 if cell["seed"] > 2 else 0.7 + cell["seed"] / 100) for cell in cells])
    text = MAKERS[table]("minilm")
    names = [row[0] for row in rows_of(text)]
    sparsities = len(grid.TABLES[which].sparsities)
    for name in studies.CLOSEST:
        assert names.count(f"{name}, faster") == sparsities
        assert names[names.index(name) + 1] == f"{name}, faster"
        of_it = [row for row in rows_of(text) if row[0] == f"{name}, faster"]
        assert all({cell.strip("*") for cell in row[1:-2]} == {"71.0 ± 1.0"} for row in of_it)
    assert f"minilm-{study}.jsonl" in text


def test_longer_taught_runs_stand_beside_those_of_the_usual_length(results):
    table = choose(results)
    write(results, "table", [line_of(cell, 0.7 if cell.get("teacher") else 0.6) for cell in table])
    write(results, "faster", [line_of(cell, 0.65) for cell in studies.faster("minilm")])
    cells = studies.patient("minilm")
    write(results, "patient", [line_of(cell, 0.9 if cell.get("teacher") else 0.8) for cell in cells])
    text = MAKERS["patient"]("minilm")
    assert "Not all" not in text
    of_platon = [row[1:] for row in rows_of(text) if row[0] == "PLATON"]
    assert [row[:3] for row in of_platon] == [
        ["90%", teacher, epochs] for teacher in ("none", "as large") for epochs in ("2, 6", "6, 24")
    ]
    assert [row[4:] for row in of_platon] == [[f"{score}.0 ± 0.0"] for score in (60, 80, 70, 90)]
    assert [row[3] for row in of_platon] == ["60.0 ± 0.0", "", "70.0 ± 0.0", ""]  # SST-2 is too long for all
    assert [row[2:] for row in rows_of(text) if row[0] == studies.FASTER] == [
        ["none", "2, 6", "65.0 ± 0.0", "65.0 ± 0.0"],
        ["none", "6, 24", "80.0 ± 0.0", "80.0 ± 0.0"],
        ["as large", "6, 24", "90.0 ± 0.0", ""],
    ]
    assert [row[3] for row in rows_of(text) if row[0] == "dense"] == ["2, 6", "6, 24"]


def test_pupils_of_rows_without_labels_stand_beside_the_dense_model_and_what_learnt_from_labels_alone(results):
    def on_both(cell: dict, score: float) -> dict:
        return line_of(cell, score + 0.01 * cell["seed"] + 0.05 * (cell["task"] == "stsb"))

    write(results, "table", [on_both(cell, 0.6) for cell in choose(results)])
    write(results, "faster", [on_both(cell, 0.58) for cell in studies.faster("minilm")])
    write(
        results, "patient", [on_both(cell, 0.1 if cell.get("teacher") else 0.62) for cell in studies.patient("minilm")]
    )
    cells = studies.unlabelled("minilm")
    scores = {"teacher": 0.9, "dense": 0.8, studies.FASTER: 0.75, "PLATON, faster": 0.7}
    lines = [on_both(cell, scores[cell["name"]] if cell.get("unlabelled") else 0.65) for cell in cells]
    write(results, "unlabelled", lines)
    text = MAKERS["unlabelled"]("minilm")
    assert "Not all" not in text
    teacher = "deberta-v3-xsmall"
    head, _, *rows = rows_of(text)
    assert head == ["", "sparsity", "teacher", "rows", "epochs", "SST-2, accuracy", "STS-B, pearson"]
    assert rows == [
        [teacher, "0%", "none", "labelled", "2, 6", "91.0 ± 1.0", "96.0 ± 1.0"],
        ["dense", "0%", "none", "labelled", "2, 6", "61.0 ± 1.0", "66.0 ± 1.0"],
        ["dense", "0%", "none", "labelled", "6, 24", "63.0 ± 1.0", "68.0 ± 1.0"],
        ["dense", "0%", teacher, "with unlabelled", "2, 2", "81.0 ± 1.0", "86.0 ± 1.0"],
        [studies.FASTER, "90%", "none", "labelled", "2, 6", "59.0 ± 1.0", "64.0 ± 1.0"],
        [studies.FASTER, "90%", "none", "labelled", "6, 24", "63.0 ± 1.0", "68.0 ± 1.0"],
        [studies.FASTER, "90%", teacher, "labelled", "6, 24", "66.0 ± 1.0", "71.0 ± 1.0"],
        [studies.FASTER, "90%", teacher, "with unlabelled", "2, 2", "76.0 ± 1.0", "81.0 ± 1.0"],
        ["PLATON, faster", "90%", "none", "labelled", "2, 6", "59.0 ± 1.0", "64.0 ± 1.0"],
        ["PLATON, faster", "90%", teacher, "with unlabelled", "2, 2", "71.0 ± 1.0", "76.0 ± 1.0"],
    ]
    assert text.endswith("commit 0123456: a card, torch 0.")
    assert "minilm-unlabelled.jsonl" in text


def test_of_rows_without_labels_what_has_not_been_run_has_no_row_and_is_counted(results):
    cells = studies.unlabelled("minilm")
    run = [cell for cell in cells if cell["seed"] == 0 and cell["task"] == "stsb" and cell["name"] == studies.FASTER]
    write(results, "unlabelled", [line_of(cell, 0.8 if cell.get("unlabelled") else 0.7) for cell in run])
    text = MAKERS["unlabelled"]("minilm")
    assert text.startswith(f"Not all cells have been run yet: 2 of {len(cells)}.")
    assert rows_of(text)[2:] == [
        [studies.FASTER, "90%", "deberta-v3-xsmall", "labelled", "6, 24", "", "70.0 (1)"],
        [studies.FASTER, "90%", "deberta-v3-xsmall", "with unlabelled", "2, 2", "", "80.0 (1)"],
    ]


def test_the_task_that_larger_models_lack_has_a_table_without_a_mean(results):
    chosen = [line_of(cell, 0.5) for cell in grid.candidates("mpnet-base")]
    cells = grid.table("mpnet-base", grid.best(chosen), "fifth")
    write(results, "choose", chosen, "mpnet-base")
    write(results, "fifth", [line_of(cell, 0.6 + cell["seed"] / 100) for cell in cells], "mpnet-base")
    faster = studies.faster5("mpnet-base")
    write(results, "faster5", [line_of(cell, 0.7 + cell["seed"] / 100) for cell in faster], "mpnet-base")
    text = MAKERS["fifth"]("mpnet-base")
    assert "Not all" not in text
    head, _, *rows = rows_of(text)
    assert head == ["", "SST-2, accuracy", "bytes a weight", "ms a step"]
    assert [row[:2] for row in rows] == [
        ["dense", "61.0 ± 1.0"],
        ["GMP", "61.0 ± 1.0"],
        ["PLATON", "61.0 ± 1.0"],
        ["PLATON, faster", "**71.0 ± 1.0**"],
        ["MGPP (paper)", "61.0 ± 1.0"],
        ["curvature, no prior", "61.0 ± 1.0"],
        ["curvature, no prior, faster", "**71.0 ± 1.0**"],
        ["MGPP recommended", "61.0 ± 1.0"],
        ["MGPP recommended, faster", "**71.0 ± 1.0**"],
    ]
    assert "mpnet-base-fifth.jsonl" in text
    assert "mpnet-base-faster5.jsonl" in text
    write(results, "fifth", [line_of(cell, 0.6) for cell in cells if cell["name"] == "GMP"], "mpnet-base")
    text = MAKERS["fifth"]("mpnet-base")
    assert text.startswith(f"Not all cells have been run yet: 3 of {len(cells)}.")
    assert row_of(text, "PLATON")[1] == ""


def test_more_seeds_stand_together_with_those_of_the_table(results):
    own = {"dense": 0.9, "PLATON": 0.6, "MGPP recommended": 0.62}
    for which in ("table", "seeds"):
        planned = choose(results, which)
        write(results, which, [line_of(cell, own.get(cell["name"], 0.5) + cell["seed"] / 100) for cell in planned])
    text = MAKERS["seeds"]("minilm")
    assert "Not all" not in text
    assert row_of(text, "PLATON") == ["PLATON", *["62.5 ± 1.9"] * 6, ""]  # of 60 to 65
    assert row_of(text, "MGPP recommended", 1)[-1] == "+2.0 ± 0.0"
    assert row_of(text, "curvature, no prior")[-1] == "-10.0 ± 0.0"
    assert "GMP" not in {row[0] for row in rows_of(text)}
    fewer = [cell for cell in reversed(planned) if cell["name"] != "PLATON" or cell["seed"] == 4]
    write(results, "seeds", [line_of(cell, own.get(cell["name"], 0.5) + cell["seed"] / 100) for cell in fewer])
    text = MAKERS["seeds"]("minilm")
    assert text.startswith("Not all cells have been run yet: 85 of 105.")
    assert row_of(text, "MGPP recommended")[-1] == "+2.0 ± 0.0"  # each seed beside the same
    assert row_of(text, "PLATON")[-2] == "61.7 ± 1.7 (4)"


def test_a_difference_is_taken_seed_by_seed_and_has_the_standard_error_of_its_mean():
    means = {"PLATON": {3: 0.8, 0: 0.5, 1: 0.6, 2: 0.7}, "dense": {0: 0.51, 1: 0.62, 2: 0.73, 3: 0.84}}
    assert seeds.apart("dense", means) == "+2.5 ± 0.6"  # of 1, 2, 3 and 4
    assert seeds.apart("dense", {**means, "dense": {0: 0.51, 4: 0.9}}) == ""  # one pair
    assert seeds.apart("GMP", means) == seeds.apart("PLATON", means) == ""


def test_in_short_the_family_stands_beside_its_rival_on_every_model(results):
    assert MAKERS["standing"]().startswith("Not all cells have been run yet: 0 of 6.")
    own = {"dense": 0.9, "PLATON": 0.6, "MGPP recommended": 0.62}
    for which in ("table", "seeds"):
        planned = choose(results, which)
        write(results, which, [line_of(cell, own.get(cell["name"], 0.5) + cell["seed"] / 100) for cell in planned])
    larger = "mpnet-base"
    lines = [line_of(cell, 0.5) for cell in grid.candidates(larger)]
    write(results, "choose", lines, larger)
    planned = grid.table(larger, grid.best(lines))
    write(results, "table", [line_of(cell, own.get(cell["name"], 0.7)) for cell in planned], larger)
    head, _, first, *_, last = rows_of(MAKERS["standing"]())
    assert head[-4:] == ["curvature, no prior", "to PLATON", "MGPP recommended", "to PLATON"]
    assert first == ["minilm", "5", "6", "90%", "92.5", "62.5", "52.5", "-10.0 ± 0.0", "64.5", "+2.0 ± 0.0"]
    assert last == [larger, "4", "3", "95%", "90.0", "60.0", "70.0", "+10.0 ± 0.0", "62.0", "+2.0 ± 0.0"]
    lacking = [cell for cell in planned if (cell["name"], cell["seed"]) != ("curvature, no prior", 0)]
    worse = [line_of(cell, own.get(cell["name"], 0.7) - (cell["seed"] == 0) / 10) for cell in lacking]
    write(results, "table", worse, larger)
    assert rows_of(MAKERS["standing"]())[-1] == [larger, "4", "2", *last[3:]]  # no seed that only some of them have
    write(results, "table", [line for line in worse if line["cell"]["name"] != "PLATON"], larger)
    assert {row[0] for row in rows_of(MAKERS["standing"]())[2:]} == {"minilm"}


def test_two_rows_of_the_table_are_apart_on_all_tasks_on_each_and_without_each(results):
    own = {"GMP": 0.7, "L2": 0.6}
    cells_of = choose(results)
    scores = [own.get(cell["name"], 0.5) + cell["seed"] * (cell["task"] == "rte") / 100 for cell in cells_of]
    lines = [line_of(cell, score + (cell["name"] == "GMP" and cell["task"] == "cola") / 10)
             for cell, score in zip(cells_of, scores, strict=True)]  # fmt: skip
    write(results, "table", lines)
    told = differences("minilm", "GMP", "L2")
    assert told[:3] == ["80%, all tasks: +12.0 ± 0.0", "80%, CoLA: +20.0 ± 0.0", "80%, MRPC: +10.0 ± 0.0"]
    assert "90%, without CoLA: +10.0 ± 0.0" in told
    assert set(differences("minilm", "GMP", "GMP")) == {line.partition(":")[0] + ": not run" for line in told}
    write(results, "patient", [line_of(cell, 0.4) for cell in studies.patient("minilm") if cell["task"] == "sst2"])
    told = differences("minilm", "patient/dense", "L2")
    assert [line for line in told if line.startswith("90%") and "not run" not in line] == ["90%, SST-2: -20.0 ± 0.0"]
    answered = [cell for cell in studies.unlabelled("minilm") if cell["task"] == "sst2"]
    write(results, "unlabelled", [line_of(cell, 0.9 if cell.get("unlabelled") else 0.8) for cell in answered])
    row = f"unlabelled/{studies.FASTER}"
    assert "90%, SST-2: +10.0 ± 0.0" in differences("minilm", f"{row} + unlabelled", row)
    write(results, "table2", [line_of(cell, 0.5 + cell["seed"] / 100) for cell in choose(results, "table2")])
    write(results, "faster2", [line_of(cell, 0.6 + cell["seed"] / 100) for cell in studies.faster2("minilm")])
    told = differences("minilm", "faster2/PLATON", "table2/PLATON")
    assert told[:2] == ["90%, all tasks: +10.0 ± 0.0", "90%, MNLI: +10.0 ± 0.0"]


def test_two_rows_of_a_larger_models_fifth_task_are_apart_on_that(results):
    cells_of = [
        grid.cell(name, "mpnet-base", "sst2", {"method": "gmp"}, 0.9, seed=seed)
        for name in ("GMP", "PLATON")
        for seed in grid.planned("mpnet-base", "fifth").seeds
    ]
    lines = [line_of(cell, 0.5 + (cell["name"] == "GMP") * (1 + cell["seed"]) / 100) for cell in cells_of]
    write(results, "fifth", lines, model="mpnet-base")
    assert differences("mpnet-base", "fifth/GMP", "fifth/PLATON") == ["90%, SST-2: +2.0 ± 0.6"]


def test_variations_stand_beside_the_recommended_form(results):
    planned = grid.varied("minilm")
    scores = {"MGPP recommended": 0.5, "no prior": 0.52}
    write(results, "vary", [line_of(cell, scores.get(cell["name"], 0.25) + cell["seed"] / 100) for cell in planned])
    text = MAKERS["varied"]("minilm")
    rows = {row[0]: row[1:] for row in rows_of(text.partition("95%:")[2])}
    assert rows["MGPP recommended"] == [*["51.0 ± 1.0"] * 4, ""]
    assert rows["no prior"] == [*["53.0 ± 1.0"] * 4, "+2.0"]
    assert set(rows) >= {name.replace("|", r"\|") for name, (_, at) in grid.VARIED.items() if 0.95 in at}
    write(results, "vary", [line_of(cell, 0.5) for cell in planned if cell["task"] == "stsb"])
    assert MAKERS["varied"]("minilm").startswith("Not all cells have been run yet: 90 of 270.")


def test_movement_is_told_with_the_most_that_an_event_takes_and_what_else_was_changed(results):
    planned = studies.movement("minilm")
    steps = {6: 1000, 24: 4000, 72: 12000}
    lines = [line_of(cell, cell["method"]["every"] / 100, steps=steps[cell["epochs"]]) for cell in planned]
    before = {**grid.RAMP, "method": "movement", "sparsity": 0.9}
    old = {**planned[0], "name": "Movement, every 10", "method": before, "epochs": 6}
    lines += [line_of({**old, "seed": seed, "lr": 0.25}, 0.5 + seed / 10) for seed in (0, 1)]
    write(results, "movement", lines)
    head, _, *rows = rows_of(MAKERS["movement"]("minilm"))
    rows = [row for row in rows if len(row) == len(head)]
    assert len(rows) == len(planned)
    # From step 100 to 700, 600 steps: 1 - (599/600)^3 of 80%, and with ten steps 1 - (590/600)^3.
    assert ["6", "step", "80%", "", "1,000", "0.40%", "1.0"] in rows
    assert ["6", "10 steps", "80%", "", "1,000", "3.93%", "10.0"] in rows
    assert {row[3] for row in rows if row[0] == "72"} == {"", "start 0.05, end 0.95", "learning rate 3e-05"}
    assert row_of(MAKERS["movement"]("minilm"), "held-out rows")[:6] == [
        "held-out rows", "layer", "0.1", "0.25", "90%", "55.0 ± 7.1",
    ]  # fmt: skip
    write(results, "movement", lines[:5])
    assert MAKERS["movement"]("minilm").startswith("Not all cells have been run yet: 5 of 23.")


def test_the_recorded_study_of_movement_is_the_one_that_is_planned():
    found = {cells.key_of(line["cell"]) for line in cells.lines_of("minilm", "movement")}
    planned = {cells.key_of(cell) for cell in studies.movement("minilm")}
    assert len(planned) == 23
    assert planned <= found
    names = {json.loads(key)["name"] for key in found - planned}
    assert names == {"Movement, every 10", "Movement from 0.3, every 10"}


@pytest.mark.parametrize("what", ["choose", "table", "table2"])
def test_hard_movement_stands_in_no_table_without_saying_how_often_it_masks(what):
    methods = [line["cell"]["method"] or {} for line in cells.lines_of("minilm", what)]
    assert all(method["every"] == 1 for method in methods if method.get("method") == "movement")


def test_cuts_have_a_table_for_every_look_and_a_column_for_every_share(results):
    cuts = [
        {"by": kind, "share": share, "pearson": share, "mse": 2.0}
        for kind in ("lowest S", "random")
        for share in (0.001, 0.01)
    ]
    looks = [{"step": step, "dense": {"pearson": 0.75, "mse": 1.5}, "cuts": cuts} for step in (97, 291)]
    write(results, "cut", [{"cell": {"name": "cut", "seed": seed}, "looks": looks, **MADE_ON} for seed in (1, 0)])
    text = MAKERS["cut"]("minilm")
    assert "After 97 steps, seeds 0, 1; whole, the model has 75.0 (1.50), 75.0 (1.50):" in text
    assert "After 291 steps" in text
    assert rows_of(text)[0] == ["cut by", "0.1%", "1.0%"]
    assert row_of(text, "random", table=1)[1:] == ["0.1 (2.00), 0.1 (2.00)", "1.0 (2.00), 1.0 (2.00)"]


def test_prior_annealing_has_a_row_for_every_setting_and_a_column_for_every_length(results):
    planned = studies.annealing("minilm")
    lines = [line_of(cell, ("clip" in cell) / 2 + cell["epochs"] / 100) for cell in planned]
    write(results, "annealing", lines)
    rows = rows_of(MAKERS["annealing"]("minilm"))
    assert ["PA, σ0² 1e-05 to 1e-06", "90%", "0.0001", "at 1", "8.0", "24.0", "8.0", "24.0"] in rows
    assert ["PA, σ0² 1e-05 to 1e-06", "1%", "0.0002", "no", "58.0", "", "58.0", ""] in rows
    assert ["no prior, cut at once before training", "90%", "0.0002", "at 1", "8.0", "24.0", "8.0", "24.0"] in rows
    assert len({tuple(row[:4]) for row in rows}) == len(rows) == 2 + 3 * 2 * 2 * 2 + 2 + 2 * 2
    write(results, "annealing", lines[:3])
    assert MAKERS["annealing"]("minilm").startswith("Not all cells have been run yet: 3 of 86.")


def test_what_is_not_clipped_stands_under_the_same_candidate_clipped(results):
    choose(results, **{"MGPP (paper)": 0.9})
    write(results, "clipping", [line_of(cell, 0.3) for cell in studies.clipping("minilm")])
    rows = rows_of(MAKERS["clipping"]("minilm"))
    at = rows.index(["0.1", "5e-05", "at 1", "90.0", "90.0", "90.0"])
    assert rows[at + 1] == ["0.1", "5e-05", "no", "30.0", "30.0", "30.0"]
    assert len(rows) == 2 + 2 * 2 * 3


def test_gradients_have_a_row_for_every_task(results):
    sizes = {"norm": 16.25, "a_weight": 0.0015}
    line = {"cell": {"task": "stsb"}, "train_rows": 5175, "first": sizes, "last": {**sizes, "norm": 0.5}, **MADE_ON}
    write(results, "gradients", [line])
    assert row_of(MAKERS["gradients"]("minilm"), "STS-B") == ["STS-B", "5,175", "16", "0.5", "1.5e-03", "1.5e-03"]


def test_a_larger_model_has_fewer_methods_and_cells():
    few, all_of_them = grid.planned("mpnet-base"), grid.planned(grid.WITH_ALL)
    assert set(few.names) < set(all_of_them.names)
    assert few.size < all_of_them.size / 4
    assert {cell["name"] for cell in grid.candidates("mpnet-base")} == {"dense", *few.names}


def test_a_block_of_a_page_may_hand_words_to_its_maker(results):
    page = "<!-- experiment: sweep minilm lr -->\nold\n<!-- end -->\n"
    assert fill(page) == f"<!-- experiment: sweep minilm lr -->\n\n{MAKERS['sweep']('minilm', 'lr')}\n\n<!-- end -->\n"


def run_of(folder, experiment: str, name: str, sparsity: float, **after: float) -> None:
    (folder / experiment / "results").mkdir(parents=True, exist_ok=True)
    result = {
        "target_sparsity": sparsity, "sparsity": sparsity, "zeros_before": 0, "prunable": 10, "steps": 1234,
        "before": {"perplexity": 30.0}, "after": after, **MADE_ON,
        "train_rows": 12_000, "eval_rows": 1_368,
        "config": {"batch_size": 16, "max_length": 512, "learning_rate": 1e-4, "epochs": 2.0, "beams": 8},
    }  # fmt: skip
    (folder / experiment / "results" / f"{name}.json").write_text(json.dumps(result))


@pytest.mark.parametrize(("experiment", "title"), [("cnn_dailymail", "CNN/DailyMail"), ("xsum", "XSum")])
def test_summaries_have_a_section_once_a_run_came_back(tmp_path, monkeypatch, experiment, title):
    monkeypatch.setattr(single, "EXPERIMENTS", tmp_path)
    assert MAKERS["summaries"](experiment) == ""
    run_of(tmp_path, experiment, "recommended-80", 0.8, rouge1=0.25, rouge2=0.125, rougeLsum=0.2)
    text = MAKERS["summaries"](experiment)
    assert text.startswith(f"## Summaries: {title}\n")
    assert f"`experiments/{experiment}/run.sh MODEL DATA OUT`" in text
    assert "12,000 articles" in text
    assert rows_of(text)[2] == ["MGPP recommended", "80%", "25.0", "12.5", "20.0"]


def test_squad_has_a_row_for_all_seeds_of_what_came_back(tmp_path, monkeypatch):
    monkeypatch.setattr(single, "EXPERIMENTS", tmp_path)
    for name, sparsity in [("platon-90", 0.9), ("recommended-50", 0.5), ("dense", 0.0), ("mgpp-90", 0.9)]:
        run_of(tmp_path, "squad", name, sparsity, exact_match=0.25, f1=0.5 - sparsity / 10)
    run_of(tmp_path, "squad", "platon-90@1", 0.9, exact_match=0.27, f1=0.45)
    run_of(tmp_path, "squad", "dense@2", 0.0, exact_match=0.25, f1=0.5)
    rows = rows_of(MAKERS["squad"]())[2:]
    assert rows == [
        ["dense", "0%", "2", "25.0 ± 0.0", "50.0 ± 0.0"],
        ["MGPP recommended", "50%", "1", "25.0", "45.0"],
        ["PLATON", "90%", "2", "26.0 ± 1.4", "43.0 ± 2.8"],
        ["MGPP (paper)", "90%", "1", "25.0", "41.0"],
    ]


def test_the_decoder_has_no_section_before_it_has_results(tmp_path, monkeypatch):
    monkeypatch.setattr(single, "EXPERIMENTS", tmp_path)
    assert MAKERS["decoder"]() == ""
    run_of(tmp_path, "decoder", "gmp-70", 0.7, perplexity=40.125)
    run_of(tmp_path, "decoder", "dense", 0.0, perplexity=20.0)
    text = MAKERS["decoder"]()
    assert text.startswith("## ")
    assert "1,234 steps of 16 blocks of 512 tokens" in text
    assert rows_of(text)[2:] == [
        ["before training", "0%", "30.00"],
        ["dense", "0%", "20.00"],
        ["GMP", "70%", "40.12"],
    ]


SIZES = {"minilm": ("bert", 6, 384), "mpnet-base": ("mpnet", 12, 768), "deberta-v3-xsmall": ("deberta-v2", 12, 384)}


@pytest.mark.parametrize("model", SIZES)
def test_bytes_are_divided_by_the_weights_that_are_pruned(model):
    kind, layers, width = SIZES[model]
    more = {"share_att_key": True, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
    config = AutoConfig.for_model(
        kind, num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width, vocab_size=9,
        num_attention_heads=width // 64, pooler_hidden_size=width, **(more if kind == "deberta-v2" else {}),
    )  # fmt: skip
    weights = find_targets(AutoModelForSequenceClassification.from_config(config)).values()
    assert sum(weight.numel() for weight in weights) == glue.PRUNABLE[model]


def test_other_tasks_have_a_line_each_of_one_run_or_of_all_seeds(results, tmp_path, monkeypatch):
    monkeypatch.setattr(single, "EXPERIMENTS", tmp_path)
    write(results, "table2", [line_of(cell, 0.7 + cell["seed"] / 100) for cell in choose(results, "table2")])
    for name, sparsity, score in [
        ("dense", 0.0, 0.5),
        ("dense@1", 0.0, 0.52),
        ("gmp-90", 0.9, 0.25),
        ("gmp-50", 0.5, 0.4),
    ]:
        run_of(tmp_path, "squad", name, sparsity, f1=score)
    run_of(tmp_path, "decoder", "dense", 0.0, perplexity=20.0)
    run_of(tmp_path, "decoder", "faster-50", 0.5, perplexity=25.0)
    head, _, *rows = rows_of(MAKERS["beyond"]())
    assert head[1:] == ["dense", "GMP", "PLATON", "`mgpp.MGPP()`, the paper's", "**`mgpp.recommended()`**"]
    told = {name.split(";")[0] + name[-3:]: row for name, *row in rows}
    assert told["MNLI, QNLI and QQP (parts), mean90%"] == [*["71.0 ± 1.0"] * 4, ""]
    assert told["SQuAD (a part), F190%"] == ["51.0 ± 1.4", "25.0", "", "", ""]
    assert told["SQuAD (a part), F195%"] == ["51.0 ± 1.4", "", "", "", ""]
    assert told["WikiText-2, perplexity (lower is better)50%"] == ["20.0", "", "", "", "25.0"]
