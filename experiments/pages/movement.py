"""Hard movement: how often its mask is chosen, how long the run is, and what small cuts by its scores leave."""

from itertools import pairwise
from typing import Any

from experiments.glue import grid, studies
from experiments.pages.cells import Cell, Line, command_of, key_of, lines_of, planned_among, score_of, told_tasks
from experiments.pages.text import Rows, joined, made_by, points, progress, spread, table

# What most cells of the study have; what else a cell has is told.
USUAL = {**grid.RAMP, "method": "movement", "scope": "layer"}
EARLIER_TASKS = ["stsb", "cola", "mrpc", "rte"]


def movement(model: str) -> str:
    """The study, and under it what was run before it with a mask every 10 steps."""
    found, cells = lines_of(model, "movement"), studies.movement(model)
    run = {key_of(line["cell"]): line for line in planned_among(found, cells)}
    missing = progress(len(run), len(cells))
    if not run:
        return missing
    rows = [_row(run[key_of(cell)]) for cell in sorted(cells, key=_order) if key_of(cell) in run]
    head = ["epochs", "a mask every", "sparsity", "changed beside", "steps", "most at one event", "STS-B, pearson"]
    earlier = [line for line in found if line["cell"]["name"] != cells[0]["name"]]
    return joined(missing, table(head, rows), _earlier(earlier), made_by(command_of(model, "movement"), found))


def _order(cell: Cell) -> tuple[int, int, bool, float]:
    method = cell["method"]
    return cell["epochs"], method["every"], _changed(cell) != "", method["sparsity"]


def _row(line: Line) -> list[str]:
    cell = line["cell"]
    every = cell["method"]["every"]
    return [
        str(cell["epochs"]),
        "step" if every == 1 else f"{every} steps",
        f"{cell['method']['sparsity']:.0%}",
        _changed(cell),
        f"{line['steps']:,}",
        f"{most_at_once(cell['method'], line['steps']):.2%}",
        points(score_of(line)),
    ]


def _changed(cell: Cell) -> str:
    middle = grid.RATES[cell["model"]][1]
    settings = {**cell["method"], "learning rate": cell["lr"]}
    usual = {**USUAL, "learning rate": middle, **{key: settings[key] for key in ("every", "sparsity")}}
    return ", ".join(f"{key} {_value(value)}" for key, value in settings.items() if usual.get(key) != value)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def most_at_once(method: dict[str, Any], steps: int) -> float:
    """By how much the sparsity rises most from one event to the next, as a share of all weights."""
    from mgpp.methods import from_dict
    from mgpp.methods.times import Run

    schedule = from_dict(method).schedule(Run(total_steps=steps))
    asked = [0.0, *[schedule.sparsity_at(t) for t in range(1, steps + 1) if schedule.is_event(t)]]
    return max(after - before for before, after in pairwise(asked))


def _earlier(lines: list[Line]) -> str:
    """With the settings of the tables above: candidates on held-out rows, and Table 1's cells."""
    if not lines:
        return ""
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for line in lines:
        each = groups.setdefault(_settings(line["cell"]), {})
        each.setdefault(line["cell"]["task"], []).append(score_of(line))
    rows: Rows = [
        [*settings, *[spread(tasks.get(task, []), 1) for task in EARLIER_TASKS]] for settings, tasks in groups.items()
    ]
    head = ["scored on", "scope", "ramp from", "learning rate", "sparsity", *told_tasks(lines, EARLIER_TASKS)]
    return joined("Run before, in the 6 to 8 epochs of Table 1, all with a mask every 10 steps:", table(head, rows))


def _settings(cell: Cell) -> tuple[str, ...]:
    method = cell["method"]
    on = "held-out rows" if cell.get("held_out") else "validation set"
    scope = method.get("scope", USUAL["scope"])
    return on, scope, f"{method['start']:g}", f"{cell['lr']:g}", f"{method['sparsity']:.0%}"


def cut(model: str) -> str:
    """Of experiments/lab/cut.py: a table for every look, its columns the shares, each with all seeds."""
    lines = sorted(lines_of(model, "cut"), key=lambda line: line["cell"]["seed"])
    if not lines:
        return progress(0, 1)
    seeds = ", ".join(str(line["cell"]["seed"]) for line in lines)
    parts = []
    for looks in zip(*[line["looks"] for line in lines], strict=True):
        dense = _told([look["dense"] for look in looks])
        about = f"After {looks[0]['step']} steps, seeds {seeds}; whole, the model has {dense}:"
        parts += [about, _looked(looks)]
    command = f"python experiments/lab/cut.py experiments/glue/results/{model}-cut.jsonl --models DIR --features DIR"
    return joined(*parts, made_by(command, lines))


def _looked(looks: tuple[dict[str, Any], ...]) -> str:
    found: dict[tuple[str, float], list[dict[str, float]]] = {}
    for look in looks:
        for each in look["cuts"]:
            found.setdefault((each["by"], each["share"]), []).append(each)
    kinds, shares = dict.fromkeys(kind for kind, _ in found), dict.fromkeys(share for _, share in found)
    rows = [[kind, *[_told(found[kind, share]) for share in shares]] for kind in kinds]
    return table(["cut by", *[f"{share:.1%}" for share in shares]], rows)


def _told(each: list[dict[str, float]]) -> str:
    """Pearson in points, and in brackets the squared error."""
    return ", ".join(f"{points(one['pearson'])} ({one['mse']:.2f})" for one in each)
