"""A question and its context as overlapping windows, each short enough for a model to read."""

from collections.abc import Sequence

import tokenizers
from transformers import BatchEncoding, PreTrainedTokenizerBase

OUTSIDE = (-1, -1)
LOSING = ("0.23.1", "0.23.2")  # versions of tokenizers: huggingface/tokenizers#2091


def check_windows(
    tokenizer: PreTrainedTokenizerBase, questions: Sequence[str], *, max_length: int, doc_stride: int, where: str
) -> None:
    """Refuse a question that leaves a window no room to move on in its context."""
    special = tokenizer.num_special_tokens_to_add(pair=True)
    for start in range(0, len(questions), 1000):
        part = [question.strip() for question in questions[start : start + 1000]]
        encoded = tokenizer(part, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
        for row, ids in enumerate(encoded, start):
            room = max_length - special - len(ids)
            if room <= doc_stride:
                raise ValueError(
                    f"row {row} of {where}: its question of {len(ids)} tokens leaves {max(room, 0)} of "
                    f"max_length={max_length} for the context, and windows overlap by doc_stride={doc_stride}: raise "
                    "max_length, lower doc_stride, or shorten the question"
                )


def lost_text() -> str | None:
    """What to tell of a version that may end a long context's windows before its end."""
    if tokenizers.__version__ not in LOSING:
        return None
    return (
        f"tokenizers {tokenizers.__version__} leaves the ends of some long texts out of their windows: install 0.23.3"
    )


def make_windows(
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    max_length: int,
    doc_stride: int,
) -> BatchEncoding:
    """[CLS] question [SEP] context [SEP], as many windows as a context needs; two neighbours share `doc_stride` tokens.

    Beside the model's inputs: `row`, the number of the question in the batch, and `offsets`, the characters of the
    context that a token stands for, OUTSIDE for every other token.
    """
    windows = tokenizer(
        # Some of SQuAD's questions begin with dozens of spaces, which are tokens to some tokenizers.
        [question.strip() for question in questions],
        list(contexts),
        truncation="only_second",
        max_length=max_length,
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=False,
    )
    spans = windows.pop("offset_mapping")
    windows["row"] = windows.pop("overflow_to_sample_mapping")
    windows["offsets"] = [
        [span if part == 1 else OUTSIDE for span, part in zip(spans[number], windows.sequence_ids(number), strict=True)]
        for number in range(len(spans))
    ]
    return windows


def answer_positions(
    windows: BatchEncoding,
    contexts: Sequence[str],
    answers: Sequence[tuple[int, int]],
    *,
    cls_token_id: int | None,
) -> dict[str, list[int]]:
    """First and last token of each question's answer in each window; the CLS token where a window has not all of it.

    `answers` are characters of the contexts. A tokenizer without a CLS token has its first token in that place: like
    CLS it belongs to no answer.
    """
    found: dict[str, list[int]] = {"start_positions": [], "end_positions": []}
    for row, ids, offsets, seen in zip(
        windows["row"], windows["input_ids"], windows["offsets"], _seen(windows, contexts), strict=True
    ):
        tokens = _tokens_of(_trimmed(contexts[row], answers[row]), offsets, seen)
        if tokens is None:
            cls = ids.index(cls_token_id) if cls_token_id in ids else 0
            tokens = (cls, cls)
        found["start_positions"].append(tokens[0])
        found["end_positions"].append(tokens[1])
    return found


def _seen(windows: BatchEncoding, contexts: Sequence[str]) -> list[tuple[int, int]]:
    """The characters that each window sees of its context.

    The outermost windows see all that is left, whatever their tokens say: tokenizers drop characters. Which these are
    the offsets tell, and not the order: a tokenizer that cuts on the left begins with the last window.
    """
    limits = []
    for offsets in windows["offsets"]:
        inside = [span for span in offsets if span != OUTSIDE] or [(0, 0)]
        limits.append((inside[0][0], inside[-1][1]))
    lowest, highest = dict.fromkeys(windows["row"], 1 << 60), dict.fromkeys(windows["row"], 0)
    for row, (low, high) in zip(windows["row"], limits, strict=True):
        lowest[row], highest[row] = min(lowest[row], low), max(highest[row], high)
    return [
        (0 if low == lowest[row] else low, len(contexts[row]) if high == highest[row] else high)
        for row, (low, high) in zip(windows["row"], limits, strict=True)
    ]


def _trimmed(context: str, answer: tuple[int, int]) -> tuple[int, int]:
    text = context[slice(*answer)]
    return answer[0] + len(text) - len(text.lstrip()), answer[1] - len(text) + len(text.rstrip())


def _tokens_of(
    answer: tuple[int, int], offsets: Sequence[tuple[int, int]], seen: tuple[int, int]
) -> tuple[int, int] | None:
    if answer[0] < seen[0] or answer[1] > seen[1]:
        return None
    touched = [number for number, (start, end) in enumerate(offsets) if end > answer[0] and start < answer[1]]
    return (touched[0], touched[-1]) if touched else None
