"""What `mgpp bench overhead` measures is a step as it is late in a run, not in its first dozen."""

from itertools import pairwise

import pytest
import torch
from transformers import BertConfig

from mgpp.bench import overhead
from mgpp.bench.overhead import LATE_STEP, Shape

SMALL = Shape(
    BertConfig(
        vocab_size=30_000, hidden_size=64, num_hidden_layers=4, num_attention_heads=2, intermediate_size=256,
        max_position_embeddings=32,
    ),
    4,
    16,
)  # fmt: skip
CPU = torch.device("cpu")


def side(name: str) -> overhead._Side:
    return overhead._Side(SMALL, CPU, overhead._sides(CPU, naive=False)[name])


def moves(run: overhead._Side) -> list[float]:
    """How far the cut moved in each of eleven steps, relative."""
    for _ in range(3):
        run.step()
    cuts = []
    for _ in range(12):
        run.step()
        cuts.append(run.pruner.last_record["cut"])
    return [abs(after / before - 1) for before, after in pairwise(cuts)]


@pytest.mark.parametrize("name", ["mgpp curvature decoupled", "mgpp curvature decoupled, mgpp.AdamW"])
def test_the_curvature_cut_moves_ten_times_as_far_in_a_runs_first_steps(name):
    young, old = side(name), side(name)
    old.grow_old()
    assert min(moves(young)) > 10 * max(moves(old))


@pytest.mark.parametrize("name", ["plain", "plain, mgpp.AdamW", "mgpp, mgpp.AdamW"])
def test_every_side_stands_at_the_same_late_step_with_the_same_estimates(name):
    early, late = side(name), side(name)
    torch.manual_seed(1)  # dropout's
    for _ in range(overhead.FIRST_STEPS):
        early.step()
    torch.manual_seed(1)
    late.grow_old()
    params = [run.optimizer.param_groups[0]["params"] for run in (early, late)]
    for before, after in zip(*params, strict=True):
        young, old = early.optimizer.state[before], late.optimizer.state[after]
        assert float(old["step"]) == LATE_STEP
        for moment, beta in (("exp_avg", 0.9), ("exp_avg_sq", 0.999)):
            torch.testing.assert_close(old[moment], young[moment] / (1 - beta**overhead.FIRST_STEPS))


def test_graphs_are_refused_where_there_is_no_gpu():
    with pytest.raises(ValueError, match="graphs are for a GPU"):
        overhead.measure_overhead("minilm", device=CPU, graphs=True)


def test_the_host_is_timed_in_every_step_and_told_of_beside_a_gpu():
    run = side("gmp")
    run.step()
    run.step()
    assert len(run.returned) == 2
    assert run.host_ms() is None  # on a CPU it is the step itself
    run.device, run.returned = torch.device("cuda"), [0.003, 0.001, 0.002]
    assert run.host_ms() == 2.0
