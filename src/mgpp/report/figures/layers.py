"""Sparsity by layer and matrix kind over time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgpp.report.figures.canvas import panels_or_new, styled
from mgpp.report.layers import Layer, layers_of, thin
from mgpp.report.run import NothingToShow, Run, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

COLUMNS = 120  # points in time, more than can be told apart


@styled
def layer_heat(run: "Run | str | Path", axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
    """A panel for each kind of matrix, a row for each block, time to the right; the colour is the share of zeros."""
    run = run if isinstance(run, Run) else read_run(run)
    if not run.events:
        raise NothingToShow(f"{run.folder} has no record of a pruning event yet")
    kinds: dict[str, list[Layer]] = {}
    for layer in layers_of(run.weights):
        kinds.setdefault(layer.kind, []).append(layer)
    most = max(len(layers) for layers in kinds.values())
    across = min(3, len(kinds))
    down = -(-len(kinds) // across)
    size = (3.1 * across + 0.8, down * max(1.5, 0.6 + 0.16 * most) + 0.3)
    panels = panels_or_new(axes, len(kinds), size=size, columns=across, sharex=True)
    events = thin(run.events, COLUMNS)
    for number, (panel, (kind, layers)) in enumerate(zip(panels, kinds.items(), strict=True)):
        mesh = _heat(panel, layers, events)
        panel.set_title(kind)
        if number % across == 0:
            panel.set_ylabel("block")
        if number >= len(kinds) - across:
            panel.set_xlabel("step")
            panel.tick_params(labelbottom=True)
    figure = panels[0].get_figure()
    if figure is not None:
        figure.colorbar(mesh, ax=panels, label="share of weights that is zero", shrink=0.8, pad=0.02)
    return panels


def _heat(panel: "Axes", layers: "list[Layer]", events: list[dict]) -> Any:
    steps = [event["step"] for event in events]
    edges = [*steps, steps[-1] + max(1, steps[-1] - steps[-2] if len(steps) > 1 else 1)]
    shares = [[event["zeros"][layer.name] / layer.size for event in events] for layer in layers]
    rows = [number - 0.5 for number in range(len(layers) + 1)]
    mesh = panel.pcolormesh(edges, rows, shares, vmin=0, vmax=1, cmap="viridis", rasterized=True)
    panel.grid(False)
    # Every block's number fits up to a dozen; beyond, some.
    every = max(1, -(-len(layers) // 12))
    panel.set_yticks(range(0, len(layers), every), [str(layer.block) for layer in layers[::every]])
    panel.invert_yaxis()
    return mesh
