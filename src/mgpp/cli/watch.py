"""`mgpp watch`: a run that goes on, in the terminal."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mgpp.cli.options import AsJson
from mgpp.disk import is_at_work
from mgpp.methods import title_of
from mgpp.report.live import Sight, Watcher
from mgpp.report.run import as_written

BARS = "▁▂▃▄▅▆▇█"


def watch(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder that a run writes to.", show_default=False)],
    every: Annotated[float, typer.Option("--every", help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a run while it goes on: sparsity, cut, loss and the time left. Ends with the run, or with Ctrl-C.

    Of a run that has stopped before its end it says so, and how to go on. With --json one object a line, whenever
    something is new.
    """
    if not 0.05 <= every <= 3600:
        raise ValueError(f"every={every}: seconds between two looks, from 0.05 to 3600")
    watcher = Watcher(run, is_at_work=is_at_work)
    console = Console(highlight=False)
    try:
        with as_written([run]):
            if once or as_json or not console.is_terminal:
                _print(watcher, console, every=every, once=once, as_json=as_json)
            else:
                _show(watcher, console, every=every)
    except KeyboardInterrupt:  # how one leaves; the run itself goes on
        return


def _print(watcher: Watcher, console: Console, *, every: float, once: bool, as_json: bool) -> None:
    seen = None
    while True:
        sight = watcher.look()
        state = (sight.step, sight.is_finished, sight.is_stopped, sight.is_quiet)
        if state != seen:
            line = json.dumps(asdict(sight)) if as_json else one_line(sight)
            console.print(line, markup=False, soft_wrap=True)
        seen = state
        if once or _is_over(sight):
            return
        time.sleep(every)


def _show(watcher: Watcher, console: Console, *, every: float) -> None:
    sight = watcher.look()
    with Live(picture(watcher, sight), console=console, refresh_per_second=4) as live:
        while not _is_over(sight):
            time.sleep(every)
            sight = watcher.look()
            live.update(picture(watcher, sight))


def one_line(sight: Sight) -> str:
    parts = [f"step {sight.step:,}{_of(sight)}"]
    parts += [f"{name} {sight.numbers[name]:.4g}" for name in ("sparsity", "cut", "loss") if name in sight.numbers]
    when = _when(sight) if sight.way_on is None else f"{_when(sight)}; {sight.way_on}"
    return "  ".join([*parts, when])


def picture(watcher: Watcher, sight: Sight) -> RenderableType:
    numbers = sight.numbers
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(sight):
        table.add_row(Text(name, style="dim"), value)
    method = sight.method
    what = "dense" if method is None else f"{title_of(method)} at {method['sparsity']:g}"
    heading = Text.assemble((what, "bold"), f"  {watcher.folder}")
    bar = ProgressBar(total=sight.last or 1, completed=sight.step, width=40)
    progress = Table.grid(padding=(0, 2))
    progress.add_row(bar, f"step {sight.step:,}{_of(sight)}", _when(sight))
    scores = {name.removeprefix("eval_"): value for name, value in numbers.items() if name.startswith("eval_")}
    shown = {name: value for name, value in scores.items() if not name.endswith(("runtime", "per_second"))}
    told = Text("  ".join(f"{name} {value:.4f}" for name, value in shown.items()))
    more = [Text.assemble(("evaluated ", "dim"), told)] if shown else []
    if sight.way_on is not None:
        more.append(Text(sight.way_on))
    return Group(heading, progress, table, *more)


def _rows(sight: Sight) -> list[tuple[str, str]]:
    numbers = sight.numbers
    rows = []
    if "sparsity" in numbers:
        asked = f" of {sight.method['sparsity']:g}" if sight.method is not None else ""
        rows.append(("sparsity", f"{numbers['sparsity']:.4f}{asked}"))
    if "cut" in numbers:
        width = numbers.get("half_width")
        by_size = (sight.method or {}).get("score") == "magnitude"
        ratio = f" ({numbers['cut'] / width:.3g} half-widths)" if width and by_size else ""
        rows.append(("cut", f"{numbers['cut']:.4g}{ratio}"))
    if "warm_up" in numbers:
        rows.append(("prior's warm-up η", f"{numbers['warm_up']:.2f}"))
    rows += [
        (words, f"{numbers[name]:.2%}")
        for name, words in (("in_spike", "in the spike"), ("came_back", "came back"))
        if name in numbers
    ]
    if sight.losses:
        rows.append(("loss", f"{sight.losses[-1]:.4f}  {sparkline(sight.losses)}"))
    return rows


def sparkline(values: list[float], width: int = 40) -> str:
    """Means of `width` stretches, drawn from the lowest to the highest."""
    count = min(width, len(values))
    parts = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, span = min(means), max(means) - min(means)
    return "".join(BARS[int((mean - low) / span * (len(BARS) - 1))] if span else BARS[0] for mean in means)


def _of(sight: Sight) -> str:
    return "" if sight.last is None else f"/{sight.last:,}"


def _is_over(sight: Sight) -> bool:
    return sight.is_finished or sight.is_stopped


def _when(sight: Sight) -> str:
    if sight.is_finished:
        return "finished"
    parts = ["stopped" if sight.is_stopped else _time_left(sight)]
    if sight.written is not None and (sight.is_stopped or sight.is_quiet):
        parts.append(f"nothing written since {_clock_time(sight.written)}")
    return ", ".join(parts)


def _time_left(sight: Sight) -> str:
    if sight.last is not None and sight.step >= sight.last:
        return "scoring and saving"
    if sight.seconds_left is None:
        return "time left not known yet"
    minutes, seconds = divmod(round(sight.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left"


def _clock_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
