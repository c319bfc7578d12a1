"""One bit a number: what is packed comes back, from any place, and lies where docs/format.md says."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mgpp.artifact.bitmask import count_kept, mask_bytes, pack_mask, spare_bits, spread, unpack_mask

masks = st.lists(st.booleans(), min_size=1, max_size=200)


def test_bit_i_of_byte_j_is_number_8j_plus_i_in_row_major_order():
    keep = torch.zeros(3, 4, dtype=torch.bool)
    keep[0, 0] = keep[1, 3] = keep[2, 1] = True  # numbers 0, 7 and 9
    assert pack_mask(keep).tolist() == [0b1000_0001, 0b0000_0010]


@given(masks)
def test_what_is_packed_comes_back(keep):
    mask = pack_mask(torch.tensor(keep))
    assert mask.numel() == mask_bytes(len(keep))
    assert unpack_mask(mask, len(keep)).tolist() == keep
    assert count_kept(mask) == sum(keep)
    assert spare_bits(mask, len(keep)) == 0


@given(masks, st.data())
def test_any_stretch_can_be_unpacked_by_itself(keep, data):
    start = data.draw(st.integers(0, len(keep) - 1))
    count = data.draw(st.integers(0, len(keep) - start))
    assert unpack_mask(pack_mask(torch.tensor(keep)), count, start=start).tolist() == keep[start : start + count]


@given(masks)
def test_values_are_spread_to_where_they_were_kept(keep):
    numbers = torch.arange(1, len(keep) + 1, dtype=torch.int32) * torch.tensor(keep)
    more = torch.cat([numbers[numbers != 0], torch.tensor([99], dtype=torch.int32)])
    out, used = spread(pack_mask(torch.tensor(keep)), more, len(keep))
    assert torch.equal(out, numbers)
    assert used == sum(keep)


def test_a_bit_after_the_last_number_is_seen():
    assert spare_bits(torch.tensor([0, 0b0010_0000], dtype=torch.uint8), 13) == 1
    assert spare_bits(torch.tensor([255], dtype=torch.uint8), 8) == 0
