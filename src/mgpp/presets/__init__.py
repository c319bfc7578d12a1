"""The paper's experiments as files: one TOML for every row of its tables, and a user's own beside them."""

from mgpp.presets.describe import describe
from mgpp.presets.find import load_preset, names, read_text
from mgpp.presets.preset import Preset, Settings, sparsity_of
from mgpp.presets.write import to_toml

__all__ = ["Preset", "Settings", "describe", "load_preset", "names", "read_text", "sparsity_of", "to_toml"]
