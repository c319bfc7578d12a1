"""Settings tried out: every trial a run of its own, in a study that several machines may share."""

from mgpp.sweep.board import Search
from mgpp.sweep.grid import Range, Sweep, Values, paper_grid
from mgpp.sweep.orchestrate import sweep

__all__ = ["Range", "Search", "Sweep", "Values", "paper_grid", "sweep"]
