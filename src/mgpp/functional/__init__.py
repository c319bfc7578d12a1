"""The mathematics: tensors and numbers in, tensors and numbers out. Nothing here knows of models or training."""

from mgpp.lazy import lazily

__getattr__, __dir__ = lazily(__name__, {})
