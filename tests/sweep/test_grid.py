"""What is tried: the paper's values by default, only settings that exist, and never on the validation rows."""

from dataclasses import replace

import pytest

from mgpp.presets import Settings
from mgpp.sweep import Range, Sweep, paper_grid
from mgpp.tasks import HOLDOUT
from tests.presets import paper


def test_the_default_grid_is_the_papers():
    grid = paper_grid("mgpp")
    assert {key.removeprefix("method."): values for key, values in grid.items()} == paper.GRID
    assert paper_grid("l2")["method.weight"] == paper.A6_WEIGHTS
    assert set(paper_grid("platon")) == set(paper_grid(None)) == {"learning_rate", "batch_size"}


def test_a_point_is_a_run_scored_on_training_rows(asked):
    config = asked.config({"learning_rate": 1e-2, "method.spike_var": 1e-10}, output="here")
    assert (config.learning_rate, config.method.spike_var, config.output) == (1e-2, 1e-10, "here")
    assert (config.eval_split, config.eval_data) == (HOLDOUT, None)


def test_the_settings_of_a_point_are_scored_where_the_user_said(asked):
    settings = replace(asked.settings, run={**asked.settings.run, "eval_split": "test"})
    sweep = replace(asked, settings=settings)
    point = {"learning_rate": 1e-2, "method.spike_var": 1e-10}
    assert sweep.config(point, output="here").eval_split == HOLDOUT
    assert sweep.chosen(point).run["eval_split"] == "test"


def test_size_counts_points_and_a_range_has_no_end(asked):
    assert asked.size == len(list(asked.points())) == 6
    assert replace(asked, grid={"learning_rate": Range(1e-5, 1e-3)}).size is None


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({}, "there is nothing to try"),
        ({"learning_rates": [1]}, "learning_rates cannot be swept: did you mean learning_rate\\?"),
        ({"colour": [1]}, "colour cannot be swept: model, data,"),
        ({"spike_var": [1e-9]}, "spike_var is a setting of the method: write it as method.spike_var"),
        ({"method.spyke_var": [1e-9]}, "mgpp has no setting spyke_var"),
        ({"learning_rate": ["fast"]}, "in the grid learning_rate = 'fast': it must be a number"),
        ({"eval_split": ["test"]}, "eval_split cannot be swept: model, data,"),
        ({"learning_rate": [1e-3, 1e-3]}, "learning_rate: a value is given twice"),
        ({"learning_rate": []}, "learning_rate: no value is given"),
    ],
)
def test_a_mistake_in_the_grid_is_named(grid, told, asked):
    with pytest.raises(ValueError, match=told):
        replace(asked, grid=grid)


def test_without_a_method_there_is_nothing_of_it_to_try(asked):
    dense = Settings(run=asked.settings.run, method=None)
    with pytest.raises(ValueError, match=r"method.spike_var: nothing is pruned"):
        Sweep(output="out", settings=dense, grid={"method.spike_var": [1e-9]})


def test_a_range_goes_up():
    with pytest.raises(ValueError, match="from a smaller number to a larger one"):
        Range(1e-3, 1e-5)
