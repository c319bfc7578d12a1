"""The mathematics: tensors and numbers in, tensors and numbers out. Nothing here knows of models or training."""
