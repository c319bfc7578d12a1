"""Walking over tensors in small aligned pieces, so that scratch memory does not grow with the model."""

from collections.abc import Iterator, Sequence

from torch import Tensor

# 64 Ki values: at 12 bytes for each what is worked on takes 768 KiB.
CHUNK = 1 << 16


def chunks(*tensors: Tensor, times: int = 1) -> Iterator[tuple[Tensor, ...]]:
    """Aligned views of tensors of one shape, in row-major order of their elements, each of at most CHUNK of them;
    `times` as many where little is taken for each, for every call costs the same.

    Views, never copies: writing to a piece writes to the tensor. A tensor that is not contiguous is cut along its
    dimensions instead of being flattened; one number (a tensor without dimensions) goes with every piece.
    """
    first = tensors[0]
    if first.numel() == 0:
        return
    if first.dim() == 0:
        yield tensors
        return
    flat = all(t.is_contiguous() for t in tensors)
    size, row = times * _piece(first), 1 if flat else first.numel() // first.shape[0]
    if row > size:
        for i in range(first.shape[0]):
            yield from chunks(*(t[i] if t.dim() else t for t in tensors), times=times)
        return

    def cut(tensor: Tensor) -> Sequence[Tensor]:
        return (tensor.view(-1) if flat else tensor).split(size // row)

    count = len(cut(first))
    yield from zip(*(cut(t) if t.dim() else (t,) * count for t in tensors), strict=True)


def _piece(tensor: Tensor) -> int:
    # A GPU has no such cache to stay in, and every launch costs the same: take pieces of 64 MiB there.
    return CHUNK if tensor.device.type == "cpu" else CHUNK << 8


def slabs(height: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Aligned views of whole rows of matrices of one shape: a multiple of `height` rows, about CHUNK values.

    One number (a tensor without dimensions) goes with every slab.
    """
    first = tensors[0]
    if first.numel() == 0:
        return
    size = max(1, _piece(first) // (first.shape[1] * height)) * height
    for start in range(0, first.shape[0], size):
        yield tuple(tensor[start : start + size] if tensor.dim() else tensor for tensor in tensors)
