"""Every figure by its name: what it shows, and what it is made from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mgpp.report.figures import comparison, layers, prior, training
from mgpp.report.figures.canvas import close, lay_out, save
from mgpp.report.figures.comparison import read_results
from mgpp.report.run import as_written, read_run, read_runs

From = Literal["nothing", "one run", "runs", "a comparison"]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    shows: str
    made_from: From
    draw: Callable[..., Any]


FIGURES: dict[str, Drawing] = {
    "penalties": Drawing(
        shows="the paper's Fig. 1: L0, L1, L2 and the mixture prior", made_from="nothing", draw=prior.penalties
    ),
    "landscapes": Drawing(
        shows="the paper's Fig. A1: what λ, σ0² and σ1² do", made_from="nothing", draw=prior.landscapes
    ),
    "weights": Drawing(
        shows="the paper's Fig. 2: remaining weights and the cut", made_from="runs", draw=training.weights_and_cuts
    ),
    "sparsity": Drawing(shows="sparsity over time", made_from="runs", draw=training.sparsity),
    "loss": Drawing(shows="the training loss", made_from="runs", draw=training.loss),
    "regrowth": Drawing(shows="how many pruned weights came back", made_from="runs", draw=training.regrowth),
    "spike": Drawing(shows="how many weights lie in the prior's spike", made_from="runs", draw=training.spike),
    "layers": Drawing(shows="sparsity by layer and matrix kind over time", made_from="one run", draw=layers.layer_heat),
    "metric": Drawing(
        shows="the metric against sparsity, with error bars", made_from="a comparison", draw=comparison.metric
    ),
}


def write_figure(
    name: str, sources: Sequence[str | Path], files: Sequence[Path], *, prior: Mapping[str, float] | None = None
) -> list[Path]:
    """Draw one of FIGURES from `sources` and write it to each of `files`; `prior` for those made from nothing."""
    drawing = FIGURES[name]
    axes = _draw(name, drawing, sources, prior or {})
    figure = (axes[0] if isinstance(axes, list) else axes).get_figure()
    with as_written(sources):
        lay_out(figure)
    try:
        return [save(figure, path) for path in files]
    finally:
        close(figure)


def _draw(name: str, drawing: Drawing, sources: Sequence[str | Path], prior: Mapping[str, float]) -> Any:
    if prior and drawing.made_from != "nothing":
        raise ValueError(f"{name} is made from {drawing.made_from}: leave {next(iter(prior))} out")
    if drawing.made_from == "nothing":
        if sources:
            raise ValueError(f"{name} is made from no run: leave {sources[0]} out")
        return drawing.draw(**prior)
    if not sources:
        raise ValueError(f"{name} is made from {drawing.made_from}: name the folder, mgpp plot {name} FOLDER")
    if len(sources) > 1 and drawing.made_from != "runs":
        raise ValueError(f"{name} is made from {drawing.made_from}: {len(sources)} folders are given")
    read = {"runs": read_runs, "one run": lambda of: read_run(of[0]), "a comparison": lambda of: read_results(of[0])}
    found = read[drawing.made_from](sources)
    with as_written(sources):
        return drawing.draw(found)
