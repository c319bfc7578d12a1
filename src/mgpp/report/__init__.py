"""Figures and the page of a run: read records, never touch a model."""

from mgpp.report.page import make_page, write_page
from mgpp.report.run import Run, read_run, read_runs

__all__ = ["Run", "make_page", "read_run", "read_runs", "write_page"]
