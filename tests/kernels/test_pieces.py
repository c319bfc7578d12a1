"""A tensor is walked over in few pieces of nearly one length, each with as much of the buffers beside it."""

import pytest
import torch

from mgpp.kernels import pieces


@pytest.mark.parametrize(("shape", "lengths"), [((7, 3), [7, 7, 7]), ((23,), [8, 8, 7]), ((), [1]), ((4, 0), [])])
def test_all_of_it_is_walked_over_in_order(shape, lengths, monkeypatch):
    monkeypatch.setattr(pieces, "ROOM", 20)
    tensor = torch.randn(shape)
    walked = list(pieces.pieces(pieces.buffers(2, [tensor, torch.empty(99)]), tensor, -tensor))
    assert [[len(view) for view in views] for views in walked] == [[length] * 4 for length in lengths]
    for at, sign in ((0, 1), (1, -1)):
        assert torch.equal(torch.cat([torch.empty(0), *(views[at] for views in walked)]), sign * tensor.reshape(-1))
