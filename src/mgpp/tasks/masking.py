"""What a block asks of a model: to fill in what is masked, or to go on."""

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from mgpp.tasks.task import IGNORED

Features = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Masked:
    """A share of the tokens is to be predicted; of these 80% read [MASK], 10% another token, 10% what they are.

    Which ones follows from (`seed`, the block's number) alone: not from the batch, the process that loads it, or the
    random state, which a resumed run has again only after its first batch.
    """

    mask: int
    vocabulary: int
    special: frozenset[int]
    probability: float
    seed: int

    def __call__(self, ids: np.ndarray, number: int) -> Features:
        draw = np.random.Generator(np.random.PCG64([self.seed, number]))
        chance, how = draw.random((2, len(ids)))
        chance[np.isin(ids, list(self.special))] = 1.0
        chosen = chance < self.probability
        if not chosen.any():  # the mean over no token is NaN
            chosen[chance.argmin()] = True
        words = draw.integers(self.vocabulary, size=len(ids))
        masked = np.where(chosen & (how < 0.8), self.mask, ids)
        masked = np.where(chosen & (how >= 0.9), words, masked)
        return {"input_ids": masked, "labels": np.where(chosen, ids, IGNORED)}


def masked(tokenizer: PreTrainedTokenizerBase, *, probability: float, seed: int) -> Masked:
    if tokenizer.mask_token_id is None:
        raise ValueError("the model's tokenizer has no mask token: it is for --task clm")
    return Masked(
        mask=tokenizer.mask_token_id,
        vocabulary=len(tokenizer),
        special=frozenset(tokenizer.all_special_ids),
        probability=probability,
        seed=seed,
    )


def causal(ids: np.ndarray, number: int) -> Features:
    return {"input_ids": ids, "labels": ids}  # the model shifts them
