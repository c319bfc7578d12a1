"""What a page says of a run follows from its records, and is said only where it holds."""

import pytest

from mgpp import report
from mgpp.report.advice import advice_for, against_l2, cut_in_half_widths
from mgpp.report.answers import answers_for
from mgpp.report.settling import settling_of, trend_of
from mgpp.report.ways import OTHERS_FIRST, Finding, Way, agreeing
from tests.report.runs import L2, MGPP, write_run


@pytest.fixture
def run_with(tmp_path):
    numbers = iter(range(100))

    def make(name: str | None = None, **settings):
        return report.read_run(write_run(tmp_path / (name or f"run{next(numbers)}"), **settings))

    return make


def answers(run, *others) -> dict[str, str]:
    return {answer.key: answer.answer for answer in answers_for(run, [run, *others])}


def advised(run, *others) -> str:
    return "\n".join(f"{a.kind}: {a.seen} {a.change}" for a in advice_for(run, [run, *others]))


# Had training settled?


def falling(step: int) -> float:
    return 2.0 - step / 100 + 0.01 * (-1) ** (step // 5)


def test_a_loss_that_only_jitters_after_the_ramp_has_settled(run_with):
    assert settling_of(run_with()).verdict == "settled"


def test_a_loss_that_still_falls_has_not_and_more_training_is_advised(run_with):
    run = run_with(losses=falling)
    assert settling_of(run).verdict == "falling"
    assert "still falling" in answers(run)["settled"]
    assert "problem: The loss was still falling" in advised(run)


def test_a_loss_that_rises_is_called_so(run_with):
    assert settling_of(run_with(losses=lambda step: step / 100)).verdict == "rising"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"end": 100}, "ended with the run"),
        ({"until": 50, "finished": False}, "goes on until step 60"),
        ({"end": 90}, "only 2 losses were logged"),
        ({"end": 95}, "only 1 loss was logged"),
        ({"end": 96, "until": 99}, "no loss was logged"),
    ],
)
def test_what_cannot_be_told_is_said_to_be_so(settings, told, run_with):
    settling = settling_of(run_with(**settings))
    assert settling.verdict == "unknown"
    assert told in settling.text


def test_a_line_is_fitted_by_least_squares():
    trend = trend_of([0, 1, 2, 3], [1.0, 2.0, 2.0, 3.0])
    assert (trend.first, trend.last) == pytest.approx((1.1, 2.9))
    assert trend.errors == pytest.approx(0.6 / (0.2 / 2 / 5) ** 0.5)
    assert trend_of([0, 1, 2], [5.0, 5.0, 5.0]).errors == 0


# What it cost


def test_accuracy_and_time_are_told_against_the_dense_run_of_the_same_data(run_with):
    pruned, dense = run_with("pruned", score=0.75), run_with("dense", method=None, score=0.8)
    told = answers(pruned, dense)
    assert "5 points under the dense run dense (0.8000)" in told["score"]
    assert "1.25 times the dense run's" in told["time"]
    other = run_with("other", method=None, config={"data": "another"})
    assert "none is given" in answers(pruned, other)["score"]
    assert "points" not in answers(dense, pruned)["score"]
    assert "1 point above the dense run" in answers(run_with("above", score=0.81), dense)["score"]


def test_size_is_the_files_and_what_a_bitmask_would_make_of_the_matrices(run_with):
    run = run_with()
    left = 600 - sum(run.events[-1]["zeros"].values())
    told = answers(run)["size"]
    assert told.startswith("The checkpoint has 1.0 MB")
    assert report.answers.cost_of(run, [run]).bitmask_bytes == 600 // 8 + 4 * left


def test_answers_name_what_was_pruned_how_much_and_where(run_with):
    told = answers(run_with())
    assert told["pruned"] == "600 weights in 6 matrices, by MGPP, between steps 20 and 60 of 100, every 2."
    assert "output.dense of block 1" in told["layers"]
    assert "attention.self.query of block 0" in told["layers"]
    assert "(asked for: 90.00%)" in told["sparsity"]


def test_of_an_unfinished_run_it_says_what_is_not_known_yet(run_with):
    told = answers(run_with(finished=False, until=30))
    assert told["score"] == told["time"] == told["size"] == "Not known until the run is finished."


def test_a_dense_run_has_answers_too(run_with):
    told = answers(run_with(method=None))
    assert told["pruned"] == "Nothing: this run is dense."
    assert advised(run_with(method=None)) == ""


# What to change next


def test_a_healthy_run_beside_its_dense_one_and_its_twin_has_no_problem(run_with):
    run = run_with("run", method={**MGPP, "sparsity": 0.8}, cut=1e-3)
    run.events[-1]["sparsity"] = run.schedule["sparsity"]
    others = [run_with("twin", method={**MGPP, "sparsity": 0.8}, config={"seed": 1}), run_with("dense", method=None)]
    assert advised(run, *others) == ""
    again = [run_with("again", method={**MGPP, "sparsity": 0.8}), others[1]]
    assert "One run with one seed" in advised(run, *again)


def test_kept_weights_inside_the_spike_mean_a_prior_that_is_too_strong(run_with):
    run = run_with(left_in_spike=0.2, cut=6e-5)
    assert cut_in_half_widths(run) < 1
    assert "20% of the weights that were kept lie inside the prior's spike" in advised(run)
    assert "--set strength=0.3" in advised(run)


def test_a_spike_that_is_empty_when_pruning_begins_hardly_acted(run_with):
    told = advised(run_with(in_spike=0.01, cut=0.05))
    assert "The spike hardly acted: when pruning began 1.0%" in told
    assert "an L2 penalty of weight 0.02 would" in told  # 1 / (0.05 · 1000)
    assert "--set spike_var=1e-09" in told
    assert "hardly acted" not in advised(run_with(in_spike=0.5, cut=0.05))
    assert "hardly acted" not in advised(run_with(in_spike=0.01, cut=1e-3))


def test_a_cut_that_is_no_size_is_not_measured_in_half_widths(run_with):
    assert cut_in_half_widths(run_with(method={**MGPP, "score": "curvature"})) is None
    assert cut_in_half_widths(run_with(method=L2)) is None


def test_a_loss_higher_than_before_pruning_is_a_problem(run_with):
    told = advised(run_with(losses=lambda step: 0.3 if step <= 20 else 0.6))
    assert "The loss ended higher (0.600) than it was when pruning began (0.300)" in told


def test_weights_that_keep_coming_back_and_none_at_all_are_both_told(run_with):
    assert "5.0% of them came back" in advised(run_with(came_back=0.05))
    none = advised(run_with(came_back=0.0))
    assert "Nothing that was pruned came back. A weight must climb from zero past the cut (0.0018)" in none
    assert "2 steps at a learning rate of 0.0001" in none
    assert "came back" not in advised(run_with(came_back=0.005))


@pytest.mark.parametrize(("score", "is_advised"), [("magnitude", True), ("curvature", False)])
def test_of_a_matrix_that_is_gone_another_score_is_advised_where_sizes_decided(score, is_advised, run_with):
    found = advised(run_with(method={**MGPP, "score": score, "sparsity": 0.999}))
    assert "does next to nothing" in found
    assert ("score=curvature" in found) == is_advised


def test_what_is_missing_for_a_judgement_is_asked_for(run_with):
    told = advised(run_with())
    assert "mgpp prune models/mini reviews --method none" in told
    assert "mgpp compare" in told


def test_a_run_short_of_its_target_and_one_that_goes_on_are_told_apart(run_with):
    run = run_with()
    run.events[-1]["sparsity"] = 0.5
    assert "The model is 50.00% sparse; 90.00% was asked for" in advised(run)
    assert "The run is at step 30 of 100" in advised(run_with(until=30, finished=False))


# One piece of advice beside another


def test_no_way_undoes_one_that_was_named_before_it():
    more, less, other = Way("do more", {"it": 1}), Way("do less", {"it": -1}), Way("do something else", {"another": 1})
    findings = [Finding(kind="note", seen=seen, ways=ways) for seen, ways in (("a", [more]), ("b", [less, other]))]
    assert [advice.change for advice in agreeing(findings)] == ["Do more.", "Do something else."]
    first, second = agreeing(findings[::-1])
    assert first.change == "Do less, or do something else."
    assert second.seen == findings[0].seen  # what was seen is told, whatever can be done about it
    assert second.change == OTHERS_FIRST


def test_a_ramp_of_few_events_after_which_nothing_came_back_is_not_told_to_prune_less_often(run_with):
    told = advised(run_with(end=24, came_back=0.0))
    assert "The ramp had only 3 pruning events. Prune more often, in smaller bites: --set every=1." in told
    assert "To let weights return, raise the learning rate." in told
    assert "To let weights return, prune less often (--set every=…), or raise" in advised(run_with(came_back=0.0))


def test_a_ramp_that_should_end_sooner_is_not_told_to_end_later(run_with):
    told = advised(run_with(losses=lambda step: 0.3 if step <= 20 else falling(step)))
    assert "end the ramp sooner (--set end=0.4)" in told
    assert (
        "Start pruning earlier, ask for less sparsity, weaken the prior (--set strength=0.3), or add a teacher" in told
    )


def test_one_event_is_not_told_in_the_plural_and_one_at_every_step_not_to_be_more_frequent(run_with):
    assert "only 1 pruning event." in advised(run_with(end=21))
    none = run_with(end=21)
    none.events[:] = [event for event in none.events if event["step"] > 21]
    assert "problem: The ramp had no pruning event before its end: everything went at once." in advised(none)
    often = run_with(end=24)
    often.schedule["every"] = 1
    assert "Prune more often" not in advised(often)


# MGPP against L2


@pytest.mark.parametrize(("cut", "said"), [(1e-3, "well under L2's."), (0.08, "here it is not.")])
def test_whether_the_cut_is_well_under_l2s_is_said_as_it_is(cut, said, run_with):
    runs = [run_with("ours", cut=cut), run_with("theirs", method=L2, cut=0.1)]
    told = against_l2(runs)
    assert told.endswith(said)
    assert "ours" in told
    assert "theirs" in told
    assert against_l2(runs[:1]) is None
    assert against_l2([runs[0], run_with(method={**L2, "sparsity": 0.5}, cut=0.1)]) is None
