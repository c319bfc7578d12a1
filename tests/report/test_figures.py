"""Figures show the numbers they are made from, on the axes they are given, in files that are the same each time."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mgpp import report
from mgpp.functional.prior import half_width, log_prior
from mgpp.report import figures
from mgpp.report.figures.canvas import STYLE, lay_out, save
from tests.report.runs import HALF_WIDTH, L2, MGPP, WEIGHTS, write_run

MAGIC = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
SUMMARY = [
    {"method": None, "sparsity": 0.0, "mean": 0.9, "std": 0.01},
    {"method": "gmp", "sparsity": 0.9, "mean": 0.7, "std": None},
    {"method": "gmp", "sparsity": 0.5, "mean": 0.8, "std": 0.02},
    {"method": "mgpp", "sparsity": 0.5, "mean": None, "std": None},
]
COMPARED = {"metric": "accuracy", "methods": ["gmp", "mgpp"], "sparsities": [0.9, 0.5], "summary": SUMMARY}


@pytest.fixture
def ours(tmp_path):
    return report.read_run(write_run(tmp_path / "ours"))


@pytest.fixture
def theirs(tmp_path):
    return report.read_run(write_run(tmp_path / "theirs", method=L2, cut=0.1))


def curve(axes: Axes, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    line = axes.get_lines()[number]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_the_first_figure_draws_the_papers_penalties_with_the_papers_numbers():
    axes = figures.penalties()
    shape = {"slab_prob": 1e-6, "spike_var": 1e-7, "slab_var": 0.1}
    theta, penalty = curve(axes[3])
    np.testing.assert_allclose(penalty, -log_prior(torch.tensor(theta), **shape))
    (zoom,) = axes[3].child_axes
    near = zoom.get_xlim()
    assert near[1] < 3 * half_width(**shape)
    assert near[1] > half_width(**shape)
    assert [float(np.interp(0.5, *curve(panel))) for panel in axes[:3]] == pytest.approx([1.0, 0.5, 0.25])


def test_the_landscapes_vary_one_number_in_each_panel():
    axes = figures.landscapes()
    for panel, symbol in zip(axes, (r"\lambda", r"\sigma_0^2", r"\sigma_1^2"), strict=True):
        labels = [line.get_label() for line in panel.get_lines()]
        assert len(labels) == 3
        assert all(symbol in label for label in labels)

    def width(line) -> float:
        """Where the wall of the spike stands: half-way up on the right."""
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        return float(x[x > 0][np.argmax(y[x > 0] > (y.min() + y.max()) / 2)])

    by_lambda, by_spike = ([width(line) for line in panel.get_lines()] for panel in axes[:2])
    assert by_lambda == sorted(by_lambda, reverse=True)  # a larger λ: a narrower spike
    assert by_spike == sorted(by_spike)
    ends = [curve(axes[2], number)[1][-1] for number in range(3)]
    assert ends == sorted(ends, reverse=True)  # a smaller σ1²: a higher penalty far from zero


def test_the_second_figure_shows_remaining_weights_and_cuts_of_both_runs(ours, theirs):
    left, right = figures.weights_and_cuts([ours, theirs])
    shares = left.patches[0].get_data()
    assert shares.values.tolist() == pytest.approx([0, 0, 0, 0.5, 1 / 3, 1 / 6])
    assert shares.edges[0] == 2**-8
    cuts = [event["cut"] for event in ours.cuts]
    np.testing.assert_allclose(curve(right)[1], cuts)
    assert set(curve(right, 1)[1]) == {HALF_WIDTH}
    np.testing.assert_allclose(curve(right, 2)[1], [event["cut"] for event in theirs.cuts])
    assert right.get_yscale() == "log"


def test_the_heat_map_has_a_panel_a_kind_and_a_row_a_block(ours):
    panels = figures.layer_heat(ours)
    assert [panel.get_title() for panel in panels] == ["attention.self.query", "attention.output.dense", "output.dense"]
    shown = panels[2].collections[0].get_array()
    name = "bert.encoder.layer.1.output.dense.weight"
    assert shown[1, -1] == ours.events[-1]["zeros"][name] / WEIGHTS[name]
    assert shown.shape[0] == 2


def test_regrowth_and_the_spike_are_those_of_the_looks(ours, theirs):
    panel = figures.regrowth([ours, theirs])
    np.testing.assert_allclose(curve(panel)[1], 0.2)
    panel = figures.spike([ours, theirs])
    assert len(panel.get_lines()) == 2  # what was pruned, and the one run that has a spike
    assert set(curve(panel, 1)[1]) == {0.5}
    with pytest.raises(ValueError, match="none of these runs has a mixture prior"):
        figures.spike([theirs])


def test_nothing_that_came_back_is_said_in_words(tmp_path):
    panel = figures.regrowth(report.read_runs([write_run(tmp_path / "none", came_back=0.0)]))
    assert "nothing came back" in [text.get_text() for text in panel.texts]


def test_a_curve_of_one_point_is_a_dot(tmp_path):
    early = report.read_run(write_run(tmp_path / "early", until=22, finished=False))
    (asked, counted), (line, *_) = figures.sparsity([early]).get_lines(), figures.cuts([early]).get_lines()
    assert len(counted.get_xdata()) == 2
    assert asked.get_marker() == counted.get_marker() == "None"
    assert len(line.get_xdata()) == 1
    assert line.get_marker() == "o"


@pytest.mark.parametrize("draw", [figures.remaining, figures.cuts, figures.sparsity, figures.loss, figures.regrowth])
def test_the_legend_lies_below_the_axes_and_hides_nothing(draw, tmp_path):
    runs = report.read_runs([write_run(tmp_path / f"a run with a rather long name, {number}") for number in range(4)])
    panel = draw(runs)
    panel.get_figure().draw_without_rendering()
    legend, axis = panel.get_legend().get_window_extent(), panel.xaxis.get_tightbbox()
    assert legend.y1 <= axis.y0
    assert legend.y0 >= 0


def test_nothing_on_an_axis_is_cut_off(tmp_path):
    """Two decimals take room that one would not, and how many there are the size of the letters decides."""
    names = [f"a run with a rather long name, {number}" for number in range(2)]
    runs = [write_run(tmp_path / name, losses=lambda step: 0.7 - 0.0035 * step) for name in names]
    panel = figures.loss(runs)
    lay_out(panel.get_figure())
    with rc_context(STYLE):  # as a file is written
        panel.get_figure().draw_without_rendering()
        assert "0.45" in [text.get_text() for text in panel.get_yticklabels()]
        assert panel.yaxis.get_tightbbox().x0 >= 0


def test_runs_of_one_label_are_told_apart_by_their_folders(tmp_path):
    panel = figures.sparsity([write_run(tmp_path / name) for name in ("mgpp", "again")])
    told = [text.get_text() for text in panel.get_legend().get_texts()]
    assert told[1:] == ["mgpp (MGPP 0.9)", "again (MGPP 0.9)"]
    alone = figures.sparsity([write_run(tmp_path / "mgpp")])
    assert [text.get_text() for text in alone.get_legend().get_texts()][1:] == ["MGPP 0.9"]


def test_cuts_of_different_scores_are_said_to_be_such(ours, theirs, tmp_path):
    assert figures.cuts([ours, theirs]).get_ylabel() == "cut"
    other = write_run(tmp_path / "other", method={**MGPP, "score": "curvature"}, cut=1e-6)
    assert figures.cuts([ours, report.read_run(other)]).get_ylabel() == "cut, each run's by its own score"


def test_the_metric_has_error_bars_and_the_dense_line():
    panel = figures.metric(COMPARED)
    (bars,) = panel.containers  # the method that finished nothing is left out
    assert bars.lines[0].get_xdata().tolist() == [0.5, 0.9]
    segments = bars.lines[2][0].get_segments()
    np.testing.assert_allclose([segment[:, 1] for segment in segments], [[0.78, 0.82], [0.7, 0.7]])
    assert "dense" in [text.get_text() for text in panel.get_legend().get_texts()]


def test_a_figure_is_drawn_on_the_axes_it_is_given(ours):
    panel = Figure().add_subplot()
    assert figures.sparsity([ours], panel) is panel
    assert figures.loss(str(ours.folder), panel) is panel
    with pytest.raises(ValueError, match="1 axes given: this figure has 4 panels"):
        figures.penalties([panel])


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_is_written_in_every_kind_the_same_each_time(name, ours, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(COMPARED))
    sources = {"nothing": [], "a comparison": [tmp_path]}.get(figures.FIGURES[name].made_from, [ours.folder])
    files = [tmp_path / "figures" / f"{name}.{kind}" for kind in MAGIC]
    assert figures.write_figure(name, sources, files) == files
    assert all(path.read_bytes().startswith(MAGIC[path.suffix[1:]]) for path in files)
    (again,) = figures.write_figure(name, sources, [tmp_path / "again.svg"])
    assert again.read_bytes() == (tmp_path / "figures" / f"{name}.svg").read_bytes()


def test_no_other_kind_of_file_is_written(ours, tmp_path):
    with pytest.raises(ValueError, match=r"written as .pdf, .svg or .png"):
        save(figures.sparsity([ours]).get_figure(), tmp_path / "sparsity.docx")


def test_a_run_without_events_is_refused_with_its_folder(tmp_path):
    early = write_run(tmp_path / "early", until=10, finished=False)
    for draw in (figures.cuts, figures.sparsity, figures.layer_heat):
        with pytest.raises(ValueError, match=r"early has no record of a"):
            draw(report.read_run(early))
