"""Text becomes blocks in which no token is padding, and masks that depend on nothing but a seed and a number."""

import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoTokenizer

datasets = pytest.importorskip("datasets")

from mgpp.tasks.blocks import SHUFFLED, TOGETHER, Blocks, EveryTime, Stream, read_ahead, stack  # noqa: E402
from mgpp.tasks.masking import Masked, causal, masked  # noqa: E402
from mgpp.tasks.packing import for_causal, for_masked  # noqa: E402
from tests.tiny import documents  # noqa: E402

MASK = Masked(mask=4, vocabulary=1000, special=frozenset({0, 1, 2, 3, 4}), probability=0.15, seed=7)
IDS = np.random.default_rng(0).integers(5, 1000, size=50_000)


@pytest.fixture(scope="module")
def bert(tiny_bert):
    return AutoTokenizer.from_pretrained(tiny_bert)


@pytest.fixture(scope="module")
def llama(tiny_llama):
    return AutoTokenizer.from_pretrained(tiny_llama)


def test_a_masked_models_blocks_hold_the_documents_one_after_the_other(bert):
    blocks = for_masked(bert, 6)(["the film is", "", "was very dull", " \n"])
    cls, sep = bert.cls_token_id, bert.sep_token_id
    words = [
        *bert.convert_tokens_to_ids(["the", "film", "is"]),
        sep,
        *bert.convert_tokens_to_ids(["was", "very", "dull"]),
    ]
    assert blocks.tolist() == [[cls, *words[:4], sep], [cls, *words[4:], sep, sep]]


def test_a_causal_models_blocks_end_each_document_with_its_sign(llama):
    blocks = for_causal(llama, 4)(["the film is", "was very dull the"])
    ids = llama("the film is </s> was very dull the")["input_ids"]
    assert blocks.tolist() == [ids[:4], ids[4:]]


def test_less_than_a_block_is_left_over_and_never_more(bert):
    texts = [row["text"] for row in documents(50)]
    blocks = for_masked(bert, 16)(texts)
    tokens = sum(len(bert(text, add_special_tokens=False)["input_ids"]) + 1 for text in texts)
    assert 0 <= tokens - blocks.shape[0] * 14 < 14
    assert for_masked(bert, 16)(["the film"]).shape == (0, 16)
    assert for_masked(bert, 16)([""]).shape == (0, 16)


def test_a_length_without_room_for_text_is_refused(bert):
    with pytest.raises(ValueError, match="max_length=3 leaves no room for text"):
        for_masked(bert, 3)


def test_so_many_tokens_are_to_be_predicted_and_read_as_asked():
    made = MASK(IDS, 0)
    chosen = made["labels"] != -100
    reads = made["input_ids"]
    assert chosen.mean() == pytest.approx(0.15, abs=0.01)
    assert np.array_equal(made["labels"][chosen], IDS[chosen])
    assert np.array_equal(reads[~chosen], IDS[~chosen])
    assert (reads[chosen] == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (reads[chosen] == IDS[chosen]).mean() == pytest.approx(0.1, abs=0.02)


def test_special_tokens_are_never_asked_for_and_a_block_always_asks_for_one():
    ids = np.array([2, 7, 3, 0, 1])
    for number in range(50):
        labels = MASK(ids, number)["labels"]
        assert labels.tolist() == [-100, 7, -100, -100, -100]


def test_a_mask_follows_from_the_seed_and_the_number_alone():
    first = MASK(IDS[:512], 3)
    np.random.seed(1)
    again = MASK(IDS[:512], 3)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    for other in (MASK(IDS[:512], 4), replace(MASK, seed=8)(IDS[:512], 3)):
        assert not np.array_equal(first["labels"], other["labels"])


def test_a_tokenizer_without_a_mask_cannot_mask(llama):
    with pytest.raises(ValueError, match="has no mask token: it is for --task clm"):
        masked(llama, probability=0.15, seed=0)


def test_every_epoch_draws_all_rows_in_a_new_order_and_masks_them_anew():
    rows = datasets.Dataset.from_dict({"input_ids": IDS[:320].reshape(10, 32).tolist()})
    blocks, sampler = Blocks(rows, MASK), EveryTime(10, seed=3)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        drawn = list(sampler)
        assert sorted(drawn) == list(range(10 * epoch, 10 * epoch + 10))
        epochs.append(drawn)
    assert epochs[0] != [row - 10 for row in epochs[1]]
    assert not np.array_equal(blocks[4]["labels"], blocks[14]["labels"])
    both = [np.where(blocks[row]["labels"] == -100, blocks[row]["input_ids"], blocks[row]["labels"]) for row in (4, 14)]
    assert all(np.array_equal(ids, IDS[4 * 32 : 5 * 32]) for ids in both)
    batch = stack(blocks.__getitems__([1, 2]))
    assert {name: tuple(value.shape) for name, value in batch.items()} == {"input_ids": (2, 32), "labels": (2, 32)}


# Streams


class Counted:
    """Documents without end; counts those that were read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self):
        for number in itertools.count():
            self.read = number + 1
            yield documents(1, seed=number)[0]


def test_a_stream_without_end_is_read_only_as_far_as_it_is_needed(bert):
    endless = Counted()
    source = datasets.IterableDataset.from_generator(endless)
    stream = Stream(source, column="text", packing=for_masked(bert, 16), form=causal, seed=0)
    blocks = list(itertools.islice(stream.blocks(), 5))
    assert len(blocks) == 5
    assert endless.read <= SHUFFLED + TOGETHER + 1


def test_a_stream_begins_anew_in_another_order_and_goes_on_counting(bert):
    source = datasets.Dataset.from_list(documents(40)).to_iterable_dataset()
    numbers: list[int] = []

    def form(ids, number):
        numbers.append(number)
        return {"input_ids": ids}

    stream = Stream(source, column="text", packing=for_masked(bert, 16), form=form, seed=0)
    once = len(for_masked(bert, 16).tokens([row["text"] for row in documents(40)])) // 14
    blocks = [row["input_ids"].tolist() for row in itertools.islice(stream.blocks(), 2 * once)]
    assert numbers == list(range(2 * once))
    assert blocks[:once] != blocks[once:]
    again = [row["input_ids"].tolist() for row in itertools.islice(iter(stream), 2 * once)]
    assert again == blocks


def test_a_streams_blocks_hold_every_token_of_every_document(bert):
    rows = documents(2 * TOGETHER + 5)
    packing = for_masked(bert, 16)
    source = datasets.Dataset.from_list(rows).to_iterable_dataset()
    stream = Stream(source, column="text", packing=packing, form=causal, seed=0)
    every = packing.tokens([row["text"] for row in rows])
    inside = np.concatenate([row["input_ids"][1:-1] for row in itertools.islice(stream.blocks(), len(every) // 14)])
    counts = [np.bincount(ids, minlength=len(bert)) for ids in (every, inside)]
    assert np.abs(counts[0] - counts[1]).sum() == len(every) - len(inside) < 14


def test_a_document_that_is_no_text_stops_the_stream_with_its_number(bert):
    rows = [*documents(30), {"text": None}]
    source = datasets.Dataset.from_list(rows).to_iterable_dataset()
    stream = Stream(source, column="text", packing=for_masked(bert, 16), form=causal, seed=0)
    with pytest.raises(ValueError, match=r"document \d+ of the stream: text=None is no text"):
        list(itertools.islice(iter(stream), 1000))


def test_reading_ahead_changes_nothing_and_ends_with_its_reader():
    before = threading.active_count()
    assert list(read_ahead(iter(range(100)), 3)) == list(range(100))
    some = read_ahead(itertools.count(), 3)
    assert [next(some) for _ in range(4)] == [0, 1, 2, 3]
    some.close()
    for thread in threading.enumerate()[before:]:
        thread.join(timeout=5)
    assert threading.active_count() == before
