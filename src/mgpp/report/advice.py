"""What to change next, computed from a run's records. Each piece says what was seen, and what one would try."""

import shlex
from collections.abc import Iterator, Sequence
from statistics import fmean

from mgpp.report.cost import dense_beside
from mgpp.report.layers import lost_by_layer
from mgpp.report.run import Run
from mgpp.report.settling import settling_of
from mgpp.report.ways import Advice, Finding, Way, agreeing
from mgpp.report.words import counted

# Where a number begins to be worth a word. They sort what is said, and decide nothing.
MANY_LEFT_IN_SPIKE = 0.05
FAR = 30.0  # half-widths
FEW_IN_SPIKE = 0.1  # of the weights that will go
STILL_MOVING = 0.01
EMPTY = 0.99
FEW_EVENTS = 10
RECENT = 5


def advice_for(run: Run, runs: Sequence[Run] = ()) -> list[Advice]:
    """Problems first."""
    found = [*_about_the_end(run), *_about_the_prior(run), *_about_the_ramp(run), *_about_regrowth(run)]
    found += [*_about_layers(run), *_about_the_comparison(run, runs)]
    return list(agreeing(sorted(found, key=lambda finding: finding.kind != "problem")))


def cut_in_half_widths(run: Run) -> float | None:
    """The last cut ÷ the spike's half-width, where the cut is a size of weights."""
    last = run.events[-1] if run.events else {}
    return last["cut"] / last["half_width"] if run.by_size and last.get("half_width") else None


def _about_the_end(run: Run) -> Iterator[Finding]:
    if run.schedule is None or not run.events:
        return
    reached, asked = run.events[-1]["sparsity"], run.schedule["sparsity"]
    if run.step < run.last and run.result is None:
        yield Finding(
            kind="note",
            seen=f"The run is at step {run.step:,} of {run.last:,}: what follows may still change.",
            ways=[Way("let it finish; if it was stopped, the same command with --resume goes on")],
        )
    elif reached < asked - 1e-4:
        yield Finding(
            kind="problem",
            seen=f"The model is {reached:.2%} sparse; {asked:.2%} was asked for.",
            ways=[Way("look whether training was stopped early; a method whose sparsity emerges needs other settings")],
        )


def _about_the_prior(run: Run) -> Iterator[Finding]:
    looks = [record for record in run.looks if "left_in_spike" in record["look"]]
    if not looks or not run.events or run.method is None:
        return
    left = looks[-1]["look"]["left_in_spike"]
    ratio = cut_in_half_widths(run)
    where = "" if ratio is None else f" The cut lies at {ratio:.2g} half-widths of the spike."
    if left > MANY_LEFT_IN_SPIKE:
        yield Finding(
            kind="problem",
            seen=f"{left:.0%} of the weights that were kept lie inside the prior's spike, nearly zero: it has taken "
            f"more than the sparsity asked for.{where}",
            ways=[_weaker(run), Way("ask for more sparsity", {"sparsity": 1})],
        )
        return
    early = [record["look"]["in_spike"] for record in looks if record["step"] < run.events[0]["step"]]
    if ratio is not None and ratio > FAR and early and early[-1] < FEW_IN_SPIKE * run.events[-1]["sparsity"]:
        yield Finding(
            kind="problem",
            seen=f"The spike hardly acted: when pruning began {early[-1]:.1%} of the weights lay in it, and the last "
            f"cut lies {ratio:.0f} half-widths out.{_slab(run)}",
            ways=[
                Way("start pruning later", {"start": 1}),
                LONGER,
                Way(
                    f"widen it ({_setting(run, 'spike_var', 10)}); a larger slab_var weakens what the slab does",
                    {"prior": 1},
                ),
            ],
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


def _about_the_ramp(run: Run) -> Iterator[Finding]:
    if run.schedule is None:
        return
    settling = settling_of(run)
    end, last = run.schedule["end"], run.last
    if settling.verdict == "falling":
        yield Finding(
            kind="problem",
            seen="The loss was still falling when the run ended: the pruned model had not finished learning.",
            ways=[LONGER, _sooner(max(0.1, end / last - 0.2))],
        )
    elif end >= last and run.step >= last:
        yield Finding(
            kind="problem",
            seen="The ramp ended with the run: there was no time at the final sparsity.",
            ways=[_sooner(0.7)],
        )
    before, after = _losses_around(run)
    if run.events and before and after and fmean(after) > 1.1 * fmean(before):
        yield Finding(
            kind="problem",
            seen=f"The loss ended higher ({fmean(after):.3f}) than it was when pruning began ({fmean(before):.3f}).",
            ways=[
                Way("start pruning earlier", {"start": -1}),
                Way("end the ramp later", {"end": 1}),
                Way("ask for less sparsity", {"sparsity": -1}),
                *([_weaker(run)] if "half_width" in run.events[-1] else []),
                Way("add a teacher"),
            ],
        )
    events = sum(record["step"] <= end for record in run.events)
    every = max(1, (end - run.schedule["start"]) // 20)
    if events < FEW_EVENTS and run.step > end and run.schedule.get("at") is None and every < run.schedule["every"]:
        yield Finding(
            kind="note" if events else "problem",
            seen=f"The ramp had only {counted(events, 'pruning event')}."
            if events
            else "The ramp had no pruning event before its end: everything went at once.",
            ways=[Way(f"prune more often, in smaller bites: --set every={every}", {"every": -1})],
        )


LONGER = Way("train longer", {"steps": 1})


def _sooner(end: float) -> Way:
    return Way(f"end the ramp sooner (--set end={end:.2g})", {"end": -1})


def _weaker(run: Run) -> Way:
    return Way(f"weaken the prior ({_setting(run, 'strength', 0.3)})", {"prior": -1})


def _losses_around(run: Run) -> tuple[list[float], list[float]]:
    assert run.schedule is not None
    pairs = list(zip(*run.logged("loss"), strict=True))
    before = [loss for step, loss in pairs if step <= run.schedule["start"]]
    after = [loss for step, loss in pairs if step > run.schedule["end"]]
    return before[-RECENT:], after[-RECENT:]


def _about_regrowth(run: Run) -> Iterator[Finding]:
    _, shares = run.looked("came_back")
    if run.schedule is None or not shares or run.step <= run.schedule["end"]:
        return
    if fmean(shares[-RECENT:]) > STILL_MOVING:
        yield Finding(
            kind="note",
            seen=f"Which weights are zero was still changing: {fmean(shares[-RECENT:]):.1%} of them came back from one "
            "look to the next.",
            ways=[
                Way("train longer after the ramp", LONGER.moves),
                Way("let the learning rate fall further (--lr-end)", {"learning_rate": -1}),
            ],
        )
    elif max(shares) == 0 and not (run.method or {}).get("hold"):
        yield Finding(
            kind="note",
            seen=f"Nothing that was pruned came back.{_why_nothing(run)}",
            lead="No fault in itself. To let weights return, ",
            ways=[
                Way("prune less often (--set every=…)", {"every": 1}),
                Way("raise the learning rate", {"learning_rate": 1}),
            ],
        )


def _why_nothing(run: Run) -> str:
    rate, every = (run.config or {}).get("learning_rate"), (run.schedule or {}).get("every")
    if rate is None or every is None or (run.method or {}).get("score") != "magnitude":
        return ""
    cut = run.events[-1]["cut"]
    return (
        f" A weight must climb from zero past the cut ({cut:.2g}) between two events: {counted(every, 'step')} at a "
        f"learning rate of {rate:g} would carry it about {every * rate:.2g}."
    )


def _about_layers(run: Run) -> Iterator[Finding]:
    empty = [lost for lost in lost_by_layer(run) if lost.share >= EMPTY]
    if empty:
        lost = f"{empty[0].what} lost {empty[0].share:.1%} of its weights"
        others = f", {counted(len(empty) - 1, 'other')} {EMPTY:.0%} or more" if len(empty) > 1 else ""
        yield Finding(
            kind="note",
            seen=f"{lost}{others}: such a matrix does next to nothing.",
            ways=[
                *([_BY_CURVATURE] if run.by_size else []),
                Way("keep it dense (--exclude '*name*') and see whether the score rises"),
                Way("remove it for good"),
            ],
        )


_BY_CURVATURE = Way("judge not by size alone, where a matrix of small weights goes first (--set score=curvature)")


def _about_the_comparison(run: Run, runs: Sequence[Run]) -> Iterator[Finding]:
    if run.method is None or run.config is None:
        return
    if dense_beside(run, runs) is None:
        command = f"mgpp prune {shlex.quote(str(run.config['model']))} {shlex.quote(str(run.config['data']))}"
        yield Finding(
            kind="note",
            seen="There is no dense run beside this one, so what pruning cost in accuracy cannot be said.",
            ways=[Way(f"run {command} --method none --output dense, with the same settings, and report both together")],
        )
    if len({(other.config or {}).get("seed") for other in runs if other.method == run.method}) < 2:
        yield Finding(
            kind="note",
            seen="One run with one seed: differences of a point or two may be chance.",
            ways=[Way("let mgpp compare run several seeds and give their spread")],
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
