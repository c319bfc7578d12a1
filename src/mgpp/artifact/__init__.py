"""The sparse file: a model on the disk without its zeros. docs/format.md says how it is laid out."""

from mgpp.artifact.load import load_sparse
from mgpp.artifact.save import save_sparse
from mgpp.artifact.shards import is_sparse
from mgpp.artifact.verify import describe

__all__ = ["describe", "is_sparse", "load_sparse", "save_sparse"]
