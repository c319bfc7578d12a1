"""What a person asks of a run, each with an answer in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mgpp.methods import title_of
from mgpp.report.cost import Cost, cost_of
from mgpp.report.layers import Lost, lost_by_kind, lost_by_layer
from mgpp.report.run import Run
from mgpp.report.settling import settling_of
from mgpp.report.words import counted

NOT_YET = "Not known until the run is finished."


@dataclass(frozen=True, kw_only=True)
class Answer:
    key: str
    question: str
    answer: str


def answers_for(run: Run, runs: Sequence[Run] = ()) -> list[Answer]:
    cost = cost_of(run, runs or [run])
    told = [
        ("pruned", "What was pruned?", _what(run)),
        ("sparsity", "How much?", _how_much(run)),
        ("layers", "Which layers lost most?", _where(run)),
        ("score", "What did it cost in accuracy?", _score(run, cost)),
        ("size", "And in size?", _size(cost)),
        ("time", "And in time?", _time(run, cost)),
        ("settled", "Had training settled?", settling_of(run).text),
    ]
    return [Answer(key=key, question=question, answer=answer) for key, question, answer in told]


def model_name(run: Run) -> str:
    return Path(str((run.config or {}).get("model", run.name))).name or run.name


def _what(run: Run) -> str:
    if run.method is None or run.schedule is None:
        return "Nothing: this run is dense."
    schedule = run.schedule
    when = f"between steps {schedule['start']:,} and {schedule['end']:,} of {run.last:,}, every {schedule['every']:,}"
    if schedule.get("at") is not None:
        when = f"at once, after step {schedule['at']:,} of {run.last:,}"
    weights = sum(run.weights.values())
    return (
        f"{weights:,} weights in {counted(len(run.weights), 'matrix', 'matrices')}, by {title_of(run.method)}, {when}."
    )


def _how_much(run: Run) -> str:
    if not run.events:
        return "None yet." if run.method is not None else "No weight was pruned."
    last = run.events[-1]
    zeros, weights = sum(last["zeros"].values()), sum(run.weights.values())
    asked = f"asked for: {run.schedule['sparsity']:.2%}" if run.schedule is not None else ""
    return f"{last['sparsity']:.2%} ({asked}): {zeros:,} weights are zero, {weights - zeros:,} are left."


def _where(run: Run) -> str:
    layers, kinds = lost_by_layer(run), lost_by_kind(run)
    if not layers:
        return "None has lost anything."
    told = f"Of single matrices, {_named(layers[0])} lost most and {_named(layers[-1])} least."
    if len(kinds) == 1:
        return told
    return f"Of the kinds of matrices, {_named(kinds[0])} lost most and {_named(kinds[-1])} least. {told}"


def _named(lost: Lost) -> str:
    return f"{lost.what} ({lost.share:.1%})"


def _score(run: Run, cost: Cost) -> str:
    if cost.score is None:
        return NOT_YET
    told = f"{cost.metric} {cost.score:.4f}"
    if run.method is None:
        return f"{told}, with every weight in place."
    if cost.difference is None:
        return f"{told}. How much pruning took of it only a dense run of the same settings can tell: none is given."
    points = round(100 * cost.difference, 2)
    apart = "1 point" if abs(points) == 1 else f"{abs(points):g} points"
    how = "level with" if points == 0 else f"{apart} {'above' if points > 0 else 'under'}"
    return f"{told}, {how} the dense run {cost.dense_name} ({cost.dense_score:.4f})."


def _size(cost: Cost) -> str:
    if cost.file_bytes is None:
        return NOT_YET
    told = f"The checkpoint has {megabytes(cost.file_bytes)}"
    if cost.weights_left == cost.weights:
        return f"{told}."
    return (
        f"{told}: an ordinary file stores its zeros. With a bit for each weight and only the values that are left, its "
        f"pruned matrices would take {megabytes(cost.bitmask_bytes)} instead of {megabytes(4 * cost.weights)} in "
        "float32 (computed, not written)."
    )


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _time(run: Run, cost: Cost) -> str:
    if cost.seconds is None or cost.seconds_per_step is None:
        return NOT_YET
    told = f"{cost.seconds:,.0f} s of training, {cost.seconds_per_step:.3g} s a step"
    if cost.dense_seconds_per_step is None:
        return f"{told}."
    return f"{told}: {cost.seconds_per_step / cost.dense_seconds_per_step:.2f} times the dense run's."
