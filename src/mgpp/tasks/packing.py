"""Documents become blocks of one length, end to end: no token is padding."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from transformers import PreTrainedTokenizerBase

Item = TypeVar("Item")

# Of a corpus on disk so many are packed together, and less than one block is left over from them.
DOCUMENTS = 1_000
NOTHING = np.empty(0, np.int32)


@dataclass(frozen=True, kw_only=True)
class Packing:
    """A document is its tokens and a separator. A block is `first`, as many tokens as fit, and `last`."""

    tokenizer: PreTrainedTokenizerBase
    length: int
    special_tokens: bool  # those that the tokenizer itself puts around a text
    separator: int | None
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    @property
    def room(self) -> int:
        return self.length - len(self.first) - len(self.last)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(blocks, length) of token ids; what is less than a block at the end is dropped."""
        return self.blocks(self.tokens(texts))[0]

    def tokens(self, texts: Sequence[str]) -> np.ndarray:
        told = [text for text in texts if text and not text.isspace()]
        return np.concatenate([NOTHING, *(self._document(ids) for ids in self._encoded(told))])

    def blocks(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The blocks that are full, and the tokens that are left."""
        count = len(tokens) // self.room
        around = [np.broadcast_to(np.array(part, np.int32), (count, len(part))) for part in (self.first, self.last)]
        body, rest = np.split(tokens, [count * self.room])
        return np.concatenate([around[0], body.reshape(count, self.room), around[1]], axis=1), rest

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        encoded = self.tokenizer(
            texts, add_special_tokens=self.special_tokens, return_attention_mask=False, verbose=False
        )
        return encoded["input_ids"]

    def _document(self, ids: list[int]) -> np.ndarray:
        ends = self.separator is None or (bool(ids) and ids[-1] == self.separator)
        return np.array(ids if ends else [*ids, self.separator], np.int32)


def for_masked(tokenizer: PreTrainedTokenizerBase, length: int) -> Packing:
    """[CLS] document [SEP] docum… [SEP]"""
    first, last = (() if token is None else (token,) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    separator = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    return _fitting(
        Packing(tokenizer=tokenizer, length=length, special_tokens=False, separator=separator, first=first, last=last)
    )


def for_causal(tokenizer: PreTrainedTokenizerBase, length: int) -> Packing:
    """document </s> docum…, each with the beginning that its tokenizer gives it."""
    return _fitting(Packing(tokenizer=tokenizer, length=length, special_tokens=True, separator=tokenizer.eos_token_id))


def _fitting(packing: Packing) -> Packing:
    if packing.room < 2:
        raise ValueError(f"max_length={packing.length} leaves no room for text: raise it")
    return packing


def grouped(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    walk = iter(items)
    while group := list(islice(walk, size)):
        yield group


def pack_rows(batch: dict[str, list[Any]], *, column: str, packing: Packing) -> dict[str, Any]:
    """For `Dataset.map`, on batches of DOCUMENTS."""
    return {"input_ids": packing(batch[column])}
