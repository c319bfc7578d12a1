"""Figures and the page of a run: read records, never touch a model."""

from mgpp.report.run import Run, read_run, read_runs

__all__ = ["Run", "read_run", "read_runs"]
