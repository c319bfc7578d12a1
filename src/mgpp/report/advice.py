"""What to change next, computed from a run's records. Each piece says what was seen, and what one would try."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from mgpp.report.cost import dense_beside
from mgpp.report.layers import lost_by_layer
from mgpp.report.run import Run
from mgpp.report.settling import settling_of

# Where a number begins to be worth a word. They sort what is said, and decide nothing.
MANY_LEFT_IN_SPIKE = 0.05
FAR = 30.0  # half-widths
FEW_IN_SPIKE = 0.1  # of the weights that will go
STILL_MOVING = 0.01
EMPTY = 0.99
FEW_EVENTS = 10
RECENT = 5


@dataclass(frozen=True, kw_only=True)
class Advice:
    """`kind` is problem or note."""

    kind: str
    seen: str
    change: str


def advice_for(run: Run, runs: Sequence[Run] = ()) -> list[Advice]:
    """Problems first."""
    found = [*_about_the_end(run), *_about_the_prior(run), *_about_the_ramp(run), *_about_regrowth(run)]
    found += [*_about_layers(run), *_about_the_comparison(run, runs)]
    return sorted(found, key=lambda advice: advice.kind != "problem")


def cut_in_half_widths(run: Run) -> float | None:
    """The last cut ÷ the spike's half-width, where the cut is a size of weights."""
    last = run.events[-1] if run.events else {}
    return last["cut"] / last["half_width"] if run.by_size and last.get("half_width") else None


def _about_the_end(run: Run) -> Iterator[Advice]:
    if run.schedule is None or not run.events:
        return
    reached, asked = run.events[-1]["sparsity"], run.schedule["sparsity"]
    if run.step < run.last and run.result is None:
        yield Advice(
            kind="note",
            seen=f"The run is at step {run.step:,} of {run.last:,}: what follows may still change.",
            change="Let it finish; if it was stopped, the same command with --resume goes on.",
        )
    elif reached < asked - 1e-4:
        yield Advice(
            kind="problem",
            seen=f"The model is {reached:.2%} sparse; {asked:.2%} was asked for.",
            change="Look whether training was stopped early; a method whose sparsity emerges needs other settings.",
        )


def _about_the_prior(run: Run) -> Iterator[Advice]:
    looks = [record for record in run.looks if "left_in_spike" in record["look"]]
    if not looks or not run.events or run.method is None:
        return
    left = looks[-1]["look"]["left_in_spike"]
    ratio = cut_in_half_widths(run)
    where = "" if ratio is None else f" The cut lies at {ratio:.2g} half-widths of the spike."
    if left > MANY_LEFT_IN_SPIKE:
        yield Advice(
            kind="problem",
            seen=f"{left:.0%} of the weights that were kept lie inside the prior's spike, nearly zero: it has taken "
            f"more than the sparsity asked for.{where}",
            change=f"Weaken the prior ({_setting(run, 'strength', 0.3)}), or ask for more sparsity.",
        )
        return
    early = [record["look"]["in_spike"] for record in looks if record["step"] < run.events[0]["step"]]
    if ratio is not None and ratio > FAR and early and early[-1] < FEW_IN_SPIKE * run.events[-1]["sparsity"]:
        yield Advice(
            kind="problem",
            seen=f"The spike hardly acted: when pruning began {early[-1]:.1%} of the weights lay in it, and the last "
            f"cut lies {ratio:.0f} half-widths out.{_slab(run)}",
            change=f"Give it time (a later start, more steps) or widen it ({_setting(run, 'spike_var', 10)}); a larger "
            "slab_var weakens what the slab does.",
        )


def _slab(run: Run) -> str:
    """Outside the spike the prior's gradient is strength/(σ1²·n)·θ: an L2 penalty."""
    method, rows = run.method or {}, run.start.get("train_size")
    if not rows or "slab_var" not in method or method.get("decoupled"):
        return ""
    weight = method.get("strength", 1.0) / (method["slab_var"] * rows)
    return f" What the prior did, its slab did, as an L2 penalty of weight {weight:.2g} would."


def _setting(run: Run, name: str, factor: float) -> str:
    value = (run.method or {}).get(name)
    return f"--set {name}={value * factor:g}" if value is not None else f"the prior's {name}, × {factor:g}"


def _about_the_ramp(run: Run) -> Iterator[Advice]:
    if run.schedule is None:
        return
    settling = settling_of(run)
    end, last = run.schedule["end"], run.last
    if settling.verdict == "falling":
        yield Advice(
            kind="problem",
            seen="The loss was still falling when the run ended: the pruned model had not finished learning.",
            change=f"Train longer, or end the ramp sooner (--set end={max(0.1, end / last - 0.2):.2g}).",
        )
    elif end >= last and run.step >= last:
        yield Advice(
            kind="problem",
            seen="The ramp ended with the run: there was no time at the final sparsity.",
            change="End the ramp sooner, such as --set end=0.7.",
        )
    before, after = _losses_around(run)
    if run.events and before and after and fmean(after) > 1.1 * fmean(before):
        yield Advice(
            kind="problem",
            seen=f"The loss ended higher ({fmean(after):.3f}) than it was when pruning began ({fmean(before):.3f}).",
            change=f"Prune more slowly (an earlier start, a later end), ask for less{_weaker(run)}, or add a teacher.",
        )
    events = sum(record["step"] <= end for record in run.events)
    if 0 < events < FEW_EVENTS and run.step > end and run.schedule.get("at") is None:
        yield Advice(
            kind="note",
            seen=f"The ramp had only {events} pruning events.",
            change=f"Prune more often, in smaller bites: --set every={max(1, (end - run.schedule['start']) // 20)}.",
        )


def _weaker(run: Run) -> str:
    return f", weaken the prior ({_setting(run, 'strength', 0.3)})" if "half_width" in run.events[-1] else ""


def _losses_around(run: Run) -> tuple[list[float], list[float]]:
    assert run.schedule is not None
    pairs = list(zip(*run.logged("loss"), strict=True))
    before = [loss for step, loss in pairs if step <= run.schedule["start"]]
    after = [loss for step, loss in pairs if step > run.schedule["end"]]
    return before[-RECENT:], after[-RECENT:]


def _about_regrowth(run: Run) -> Iterator[Advice]:
    _, shares = run.looked("came_back")
    if run.schedule is None or not shares or run.step <= run.schedule["end"]:
        return
    if fmean(shares[-RECENT:]) > STILL_MOVING:
        yield Advice(
            kind="note",
            seen=f"Which weights are zero was still changing: {fmean(shares[-RECENT:]):.1%} of them came back from one "
            "look to the next.",
            change="Train longer after the ramp, or let the learning rate fall further (--lr-end).",
        )
    elif max(shares) == 0 and not (run.method or {}).get("hold"):
        yield Advice(kind="note", seen=f"Nothing that was pruned came back.{_why_nothing(run)}", change=_NOTHING)


_NOTHING = "No fault in itself. To let weights return, prune less often (--set every=…) or raise the learning rate."


def _why_nothing(run: Run) -> str:
    rate, every = (run.config or {}).get("learning_rate"), (run.schedule or {}).get("every")
    if rate is None or every is None or (run.method or {}).get("score") != "magnitude":
        return ""
    cut = run.events[-1]["cut"]
    return (
        f" A weight must climb from zero past the cut ({cut:.2g}) between two events: {every} steps at a learning rate "
        f"of {rate:g} carry it about {every * rate:.2g}."
    )


def _about_layers(run: Run) -> Iterator[Advice]:
    empty = [lost for lost in lost_by_layer(run) if lost.share >= EMPTY]
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        yield Advice(
            kind="note",
            seen=f"{empty[0].what}{more} lost {empty[0].share:.1%} of its weights: such a matrix does next to nothing.",
            change=f"{_BY_SIZE if run.by_size else ''}Keep it dense (--exclude '*name*') and see whether the score "
            "rises, or remove it for good.",
        )


_BY_SIZE = "By size alone a matrix of small weights goes first: try --set score=curvature. "


def _about_the_comparison(run: Run, runs: Sequence[Run]) -> Iterator[Advice]:
    if run.method is None or run.config is None:
        return
    if dense_beside(run, runs) is None:
        command = f"mgpp prune {shlex.quote(str(run.config['model']))} {shlex.quote(str(run.config['data']))}"
        yield Advice(
            kind="note",
            seen="There is no dense run beside this one, so what pruning cost in accuracy cannot be said.",
            change=f"Run {command} --method none --output dense, with the same settings, and report both together.",
        )
    if len([other for other in runs if other.method == run.method]) < 2:
        yield Advice(
            kind="note",
            seen="One run with one seed: differences of a point or two may be chance.",
            change="mgpp compare runs several seeds and gives their spread.",
        )


def against_l2(runs: Sequence[Run]) -> str | None:
    """Is the cut well under L2's, as the paper's Fig. 2 shows it? Of the first run of each kind at one sparsity."""
    by_size = [run for run in runs if run.events and run.by_size]
    for ours in (run for run in by_size if "half_width" in run.events[-1]):
        for theirs in (run for run in by_size if (run.method or {})["method"] == "l2"):
            if (ours.method or {})["sparsity"] == (theirs.method or {})["sparsity"]:
                return _cut_sentence(ours, theirs)
    return None


def _cut_sentence(ours: Run, theirs: Run) -> str:
    cut, other = ours.events[-1]["cut"], theirs.events[-1]["cut"]
    told = f"The last cut of {ours.name} is {cut:.3g}, that of {theirs.name} {other:.3g}: {cut / other:.2g} times it."
    if cut < 0.5 * other:
        return f"{told} As in the paper's Fig. 2, the prior pulls the cut well under L2's."
    return f"{told} The paper's Fig. 2 shows the prior's cut well under L2's; here it is not."
