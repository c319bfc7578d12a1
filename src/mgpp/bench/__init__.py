"""What pruning costs, measured: all sides in one run, medians with spread, and the machine beside them."""

from mgpp.bench.decoder import measure_decoder
from mgpp.bench.overhead import SHAPES, measure_overhead
from mgpp.bench.selection import measure_selection
from mgpp.bench.semi_structured import measure_semi_structured

__all__ = ["SHAPES", "measure_decoder", "measure_overhead", "measure_selection", "measure_semi_structured"]
