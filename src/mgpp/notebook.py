"""How a pruner and results show themselves in a notebook: as tables. Everywhere else they are what they were."""

from collections.abc import Mapping
from typing import Any

from mgpp.markup import Html, table, tag
from mgpp.methods import title_of

SHOWN = 12  # layers; more are folded into a count


def pruner_html(
    method: Mapping[str, Any],
    *,
    step: int,
    last: int,
    sparsity: float,
    zeros: Mapping[str, int],
    sizes: Mapping[str, int],
) -> Html:
    _, *settings = method.items()
    rows = [
        ("step", f"{step:,} of {last:,}"),
        ("sparsity", f"{sparsity:.4f}"),
        ("zeros", f"{sum(zeros.values()):,} of {sum(sizes.values()):,}"),
        *settings,
    ]
    layers = [(layer, f"{zeros[layer]:,}", f"{zeros[layer] / size:.2%}") for layer, size in list(sizes.items())[:SHOWN]]
    if len(sizes) > SHOWN:
        layers.append((f"and {len(sizes) - SHOWN} more", "", ""))
    inside = table(layers, head=("weight", "zeros", "share"))
    return tag(
        "div",
        table(rows, caption=f"Pruner: {title_of(method)}"),
        tag("details", tag("summary", f"{len(sizes)} matrices"), inside),
    )


def score_rows(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every metric as it is shown: its name, before training and after; a dash where it was not scored before."""
    before, after = result["before"], result["after"]
    return [(name, f"{before[name]:.4f}" if name in before else "–", f"{after[name]:.4f}") for name in after]


class RunResult(dict[str, Any]):
    """What result.json holds."""

    def _repr_html_(self) -> Html:
        method = self["method"]
        caption = "dense" if method is None else f"{title_of(method)} at {self['target_sparsity']:g}"
        rows = [
            *score_rows(self),
            ("sparsity", "", f"{self['sparsity']:.4f}"),
            ("zeros", "", f"{self['zeros']:,} of {self['prunable']:,}"),
            ("seconds", "", f"{self['seconds']:.1f}"),
            ("folder", "", self["config"]["output"]),
        ]
        return tag("div", table(rows, head=("", "before", "after"), caption=caption))


class ComparisonResult(dict[str, Any]):
    """What results.json holds."""

    def _repr_html_(self) -> Html:
        rows = [
            (line["method"] or "dense", f"{line['sparsity']:g}", _score(line), f"{line['runs']} of {line['of']}")
            for line in self["summary"]
        ]
        return tag("div", table(rows, head=("", "sparsity", self["metric"] or "score", "runs")))


def _score(line: Mapping[str, Any]) -> str:
    if line["mean"] is None:
        return "–"
    return f"{line['mean']:.4f}" + ("" if line["std"] is None else f" ± {line['std']:.4f}")
