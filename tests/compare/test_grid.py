"""A grid is every method at every sparsity with every seed, and each cell a whole config."""

from dataclasses import replace

import pytest

import mgpp
from mgpp.compare.grid import AUTO, settings_by_method
from mgpp.methods import METHODS
from tests.compare.conftest import RAMP


def test_every_combination_is_one_cell_in_a_folder_of_its_own(comparison, tmp_path):
    names = [cell.name for cell in comparison.pruned()]
    assert names == [
        f"{method}-{sparsity}-{seed}" for seed in (0, 1) for sparsity in (0.5, 0.75) for method in ("gmp", "platon")
    ]
    assert [cell.name for cell in comparison.dense()] == ["dense-0", "dense-1"]
    for cell in (*comparison.dense(), *comparison.pruned()):
        assert cell.folder == tmp_path / "out" / "cells" / cell.name
        assert (cell.config.seed, cell.config.max_steps) == (cell.seed, 10)


def test_a_cells_method_has_its_sparsity_and_its_settings(comparison):
    cell = replace(comparison, settings={"gmp": {**RAMP, "hold": True}, "platon": RAMP}).pruned()[2]
    assert cell.config.method == METHODS["gmp"](sparsity=0.75, **RAMP, hold=True)


def test_a_form_of_a_method_is_compared_beside_the_method(comparison):
    own = settings_by_method([("end", 0.5), ("recommended.strength", 0.01)], ["recommended", "mgpp"])
    cells = replace(comparison, methods=["recommended", "mgpp"], settings=own).pruned()[:2]
    assert [cell.config.method for cell in cells] == [
        mgpp.recommended(sparsity=0.5, end=0.5, strength=0.01),
        mgpp.MGPP(sparsity=0.5, end=0.5),
    ]


def test_the_teacher_is_the_dense_run_of_the_same_seed_or_the_one_that_was_named(comparison):
    for teacher in (AUTO, "somewhere", None):
        asked = replace(comparison, teacher=teacher)
        assert {cell.config.teacher for cell in asked.dense()} == {None}
        dense = {cell.seed: str(cell.folder) for cell in asked.dense()}
        for cell in asked.pruned():
            assert cell.config.teacher == (dense[cell.seed] if teacher == AUTO else teacher)


def test_dense_runs_know_nothing_of_distillation(comparison):
    told = {"distil_weight": 0.9, "unlabelled": "more.csv"}
    asked = replace(comparison, teacher=AUTO, training={**comparison.training, **told})
    assert {(cell.config.distil_weight, cell.config.unlabelled) for cell in asked.dense()} == {(0.5, None)}
    assert {(cell.config.distil_weight, cell.config.unlabelled) for cell in asked.pruned()} == {(0.9, "more.csv")}


def test_a_setting_is_for_all_methods_or_for_one():
    pairs = [("end", 8), ("gmp.hold", True), ("gmp.end", 6)]
    assert settings_by_method(pairs, ["gmp", "platon"]) == {"gmp": {"end": 6, "hold": True}, "platon": {"end": 8}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"methods": []}, "methods is empty: give at least one"),
        ({"sparsities": [0.5, 0.5]}, "sparsities: 0.5 is given twice"),
        ({"seeds": [1, 2, 1]}, "seeds: 1 is given twice"),
        ({"settings": {"itp": {"beta": 0.5}}}, "settings for itp, which is not compared"),
    ],
)
def test_a_grid_that_makes_no_sense_cannot_be_made(change, told, comparison):
    with pytest.raises(ValueError, match=told):
        replace(comparison, **change)
