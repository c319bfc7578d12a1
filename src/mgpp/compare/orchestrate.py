"""A comparison from its grid to its files: what is finished stays, what was begun goes on, the rest is run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mgpp.compare.grid import AUTO, CELLS, Cell, Comparison
from mgpp.compare.pool import Launch, Pool, launch
from mgpp.compare.results import RESULTS_FILE, collect, write_results
from mgpp.disk import alone, require_own
from mgpp.notebook import ComparisonResult
from mgpp.report.figures import write_figure
from mgpp.run import RunInterrupted
from mgpp.run.plan import make_plan

Tell = Callable[[str], None]


def compare(
    comparison: Comparison,
    *,
    workers: int = 1,
    tell: Tell = lambda line: None,
    launch: Launch[Cell] = launch,
) -> ComparisonResult:
    """Run what is not finished yet; returns what `results.json` holds.

    Bad input, and a cell's folder that holds another run, raise ValueError or OSError before anything is run. A cell
    that fails is marked with its reason, and the others go on.
    """
    dense, pruned = comparison.dense(), comparison.pruned()
    require_own(comparison.folder, "comparison", [CELLS], beside=["logs"])
    for cell in (*dense, *pruned):
        cell.check()
    pool = Pool(workers, comparison.folder / "logs", launch=launch)
    missing = [cell for cell in (*dense, *pruned) if not cell.is_finished]
    if missing:
        check_plan(comparison, missing)
    with alone(comparison.folder, "comparison"):
        board = _Board(comparison, [*dense, *pruned], tell)
        board.say_found()
        try:
            pool.run([cell for cell in dense if not cell.is_finished], board.ended)
            pool.run(_teachable(comparison, pruned, board), board.ended)
        except KeyboardInterrupt:
            board.write()
            raise RunInterrupted(
                f"interrupted; {board.finished} of {len(dense) + len(pruned)} runs are finished in "
                f"{comparison.folder}: the same command goes on from there"
            ) from None
        results = board.write()
        if board.finished:
            _plot(comparison.folder, tell)
        return ComparisonResult(results)


def _plot(folder: Path, tell: Tell) -> None:
    try:
        write_figure("metric", [folder / RESULTS_FILE], [folder / f"metric.{kind}" for kind in ("png", "pdf")])
    except ImportError:
        tell("no plot was drawn, matplotlib is not installed: pip install 'mgpp[plot]'")


def check_plan(comparison: Comparison, missing: list[Cell]) -> None:
    """Model, data and teacher are read once here, and every schedule tried: each mistake would fail in every cell."""
    sample = missing[-1]  # a pruned one, if any is
    plan = make_plan(sample.config, sample.folder, has_teacher=comparison.teacher != AUTO)
    for cell in missing:
        if cell.config.method is not None:
            cell.config.method.recipe(plan.length)


class _Board:
    """Who is done: told line by line, and written after every cell, for a machine may die at any time."""

    def __init__(self, comparison: Comparison, cells: list[Cell], tell: Tell) -> None:
        self._comparison, self._cells, self._tell = comparison, cells, tell
        self._done = self.finished
        self.failed: dict[str, str] = {}

    @property
    def finished(self) -> int:
        return sum(cell.is_finished for cell in self._cells)

    def say_found(self) -> None:
        begun = sum(cell.is_begun and not cell.is_finished for cell in self._cells)
        more = f", {self._done} are finished already" if self._done else ""
        more += f", {begun} were begun and go on" if begun else ""
        self._tell(f"{len(self._cells)} runs{more}")
        asked = {cell.name for cell in self._cells}
        others = [path.name for path in (self._comparison.folder / CELLS).glob("*") if path.name not in asked]
        if others:
            self._tell(
                f"{len(others)} more runs in {CELLS}, {min(others)} among them, were not asked for: the table leaves "
                "them out"
            )

    def ended(self, cell: Cell, reason: str | None) -> None:
        self._done += 1
        count = f"[{self._done}/{len(self._cells)}]"
        if reason is not None:
            self.failed[cell.name] = reason
            self._tell(f"{count} {cell.name} failed: {reason}")
        else:
            result = cell.result or {}
            score = result["after"][result["metric"]]
            self._tell(f"{count} {cell.name}: {result['metric']} {score:.4f}, {result['seconds']:.0f} s")
        self.write()

    def write(self) -> dict[str, Any]:
        results = collect(self._comparison, self._cells, self.failed)
        write_results(results, self._comparison.folder)
        return results


def _teachable(comparison: Comparison, pruned: list[Cell], board: _Board) -> list[Cell]:
    """The cells that can be run now; one whose teacher failed has failed, too."""
    waiting = [cell for cell in pruned if not cell.is_finished]
    if comparison.teacher != AUTO:
        return waiting
    teachers = {cell.seed: cell for cell in comparison.dense()}
    for cell in waiting:
        teacher = teachers[cell.seed]
        if not teacher.is_finished:
            board.ended(cell, f"its teacher {teacher.name} failed: {board.failed[teacher.name]}")
    return [cell for cell in waiting if cell.name not in board.failed]
