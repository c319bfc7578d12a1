"""Rows of like length share a batch, in an order that the seed and the epoch decide."""

from mgpp.run.sampling import LengthGrouped

LENGTHS = [(7 * number) % 31 + 1 for number in range(103)]


def order(epoch: int, seed: int = 0) -> list[int]:
    sampler = LengthGrouped(LENGTHS, batch_size=8, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def test_every_row_comes_once():
    assert sorted(order(0)) == list(range(103))


def test_the_order_follows_from_seed_and_epoch_alone():
    assert order(1) == order(1)
    assert order(0) != order(1)
    assert order(0, seed=1) != order(0, seed=0)


def test_a_batch_holds_rows_of_like_length():
    rows = order(0)
    batches = [rows[start : start + 8] for start in range(0, 96, 8)]
    spreads = [max(LENGTHS[row] for row in batch) - min(LENGTHS[row] for row in batch) for batch in batches]
    assert max(spreads) <= 4  # of 30, were they drawn at random
