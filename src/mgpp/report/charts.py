"""The places of the page's charts, with what each of them shows in words. The page's script draws into them."""

from collections.abc import Sequence

from mgpp.markup import Html, table, tag
from mgpp.report.layers import Lost, lost_by_block, lost_by_kind, lost_by_layer
from mgpp.report.payload import keys_of
from mgpp.report.run import Run

TOP = 5


def charts(runs: Sequence[Run]) -> Html:
    drawn = [_chart("sparsity", "Sparsity", "The share of weights that is zero, and what the schedule asked for.")]
    drawn.append(
        _chart(
            "cut",
            "The cut",
            "The smallest score that stays. Where that is a size and the method has a prior, its spike ends at the "
            "half-width; by curvature it is a size times the root of Adam's second moment.",
        )
    )
    drawn.append(_chart("loss", "Loss", "Training loss as logged, and where it was evaluated, the evaluation's."))
    for number, key in enumerate(_metrics(runs)):
        name = key.removeprefix("eval_")
        drawn.append(_chart(f"metric{number}", name, f"{name} on the evaluation rows during training.", metric=key))
    drawn.append(_regrowth(runs))
    drawn.append(
        _chart(
            "in_spike",
            "Weights in the spike",
            "Those that the prior takes for the spike's (g > ½), just before an event. What was pruned before hardly "
            "leaves it; what is above that, the prior has gathered by itself.",
        )
    )
    present = [chart for chart, is_there in zip(drawn, _presence(runs), strict=True) if is_there]
    note = (
        "Drag over a chart to zoom in on steps, double-click to see all; all charts move together. With the keyboard: "
        "arrow keys read values, + and - zoom, 0 shows all. Shaded is the ramp, from its start to its end."
    )
    return tag(
        "section",
        tag("h2", "Curves"),
        tag("p", note, class_="quiet"),
        tag("noscript", tag("p", "The charts need JavaScript; all answers are above.")),
        tag("div", *present, class_="grid"),
        id="curves",
    )


def _regrowth(runs: Sequence[Run]) -> Html:
    title, sampled = "Weights that came back", _sampled(runs)
    caption = f"Of the weights that were zero at one look, those that are not at the next; {sampled}."
    if any(share > 0 for run in runs for share in run.looked("came_back")[1]):
        return _chart("came_back", title, caption)
    return tag("figure", tag("h3", title), tag("figcaption", caption), tag("p", "None did."))


def _presence(runs: Sequence[Run]) -> list[bool]:
    """Which charts have anything to show, in their order."""
    events = any(run.events for run in runs)
    looks = [any(run.looked(key)[0] for run in runs) for key in ("came_back", "in_spike")]
    return [
        events,
        any(run.cuts for run in runs),
        any(run.logs for run in runs),
        *(True for _ in _metrics(runs)),
        *looks,
    ]


def _metrics(runs: Sequence[Run]) -> list[str]:
    """The main metric, where it was evaluated while training; the others would be a wall of curves."""
    main = {f"eval_{run.result['metric']}" for run in runs if run.result is not None and run.result.get("metric")}
    found = [key for key in keys_of(runs, "eval_") if key in main]
    return [key for key in found if any(len(run.logged(key)[0]) > 2 for run in runs)]


def _sampled(runs: Sequence[Run]) -> str:
    sizes = [run.start["sample"] for run in runs if "sample" in run.start]
    return f"counted on a sample of {max(sizes):,} weights" if sizes else "no weights were looked at in these runs"


def where(runs: Sequence[Run]) -> Html:
    pruned = [run for run in runs if run.events]
    if not pruned:
        return Html()
    looked = any(run.looks for run in pruned)
    drawn = [
        _chart(
            "layers",
            "Sparsity by matrix",
            "Each line a matrix. Point at one to read it; a key hides or shows its group.",
        ),
        _chart("heat", "Sparsity by matrix over time", "A row for every matrix, time to the right.", wide=True),
    ]
    if looked:
        drawn.insert(
            1,
            _chart(
                "sizes",
                "How large the weights are",
                "Grey before the event, solid what it left. Move the slider through the run.",
            ),
        )
    return tag(
        "section",
        tag("h2", "Layers"),
        *(_ranking(run) for run in pruned),
        _chooser(pruned),
        tag("div", *drawn, class_="grid"),
        id="where",
    )


def _chooser(runs: Sequence[Run]) -> Html:
    by = tag("select", tag("option", "matrix kind", value="kind"), tag("option", "block", value="block"), id="by")
    parts = [tag("label", "group lines by", by)]
    if len(runs) > 1:
        options = [tag("option", run.name, value=str(number)) for number, run in enumerate(runs)]
        parts.insert(0, tag("label", "run", tag("select", *options, id="which")))
    return tag("div", *parts, class_="bar")


def _ranking(run: Run) -> Html:
    layers = lost_by_layer(run)
    some = layers if len(layers) <= 2 * TOP else [*layers[:TOP], *layers[-TOP:]]
    named = "Matrices" if len(some) == len(layers) else f"Matrices: the {TOP} that lost most, the {TOP} that lost least"
    tables = [
        _lost(lost_by_kind(run), "Kinds of matrices"),
        _lost(lost_by_block(run)[: 2 * TOP], "Blocks"),
        _lost(some, named),
    ]
    return tag("div", tag("h3", f"{run.name} ({run.label})"), tag("div", *tables, class_="tables"))


def _lost(lost: Sequence[Lost], caption: str) -> Html:
    rows = [(part.what, f"{part.share:.2%}", f"{part.size - part.zeros:,}") for part in lost]
    return tag(
        "div",
        table(rows, head=("", "zero", "left"), caption=caption),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def _chart(name: str, title: str, caption: str, *, metric: str | None = None, wide: bool = False) -> Html:
    words = [tag("h3", title), tag("figcaption", caption)]
    return tag("figure", *words, data_chart=name, data_metric=metric, class_="wide" if wide else None)
