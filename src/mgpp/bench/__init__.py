"""What pruning costs and what its zeros bring, measured: all sides in one run, medians with spread."""

from mgpp.bench.decoder import measure_decoder
from mgpp.bench.inference import measure_inference
from mgpp.bench.overhead import SHAPES, measure_overhead
from mgpp.bench.selection import measure_selection
from mgpp.bench.semi_structured import measure_semi_structured

__all__ = [
    "SHAPES",
    "measure_decoder",
    "measure_inference",
    "measure_overhead",
    "measure_selection",
    "measure_semi_structured",
]
