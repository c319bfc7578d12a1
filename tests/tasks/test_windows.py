"""Windows cover a context, share their overlap, and mark an answer's tokens, whatever the tokenizer."""

from itertools import pairwise

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from mgpp.tasks.windows import OUTSIDE, answer_positions, check_windows, make_windows

CONTEXT = (
    "The 1973 oil crisis began in October 1973, when the members of OAPEC proclaimed an embargo. By its end in March "
    "the price had risen from US$3 to nearly US$12; prices in the U.S. were higher. It was the first oil shock."
)
QUESTION = "When did the oil crisis begin?"
SPECIAL = ["<pad>", "<cls>", "<sep>", "<unk>"]


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator([CONTEXT], trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIAL))
    tokenizer.post_processor = _template("<cls>:0 $A:0 <sep>:0 $B:1 <sep>:1", tokenizer)
    return tokenizer


def byte_level() -> Tokenizer:
    """RoBERTa's and BART's kind: a token holds the space before its word, its offsets do not."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([CONTEXT], trainer)
    sep, cls = (("<sep>", 2), ("<cls>", 1))
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
    return tokenizer


def metaspace(template: str) -> Tokenizer:
    """SentencePiece's kind: a token's offsets hold the space before its word, too."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([CONTEXT], trainers.BpeTrainer(vocab_size=150, special_tokens=SPECIAL))
    tokenizer.post_processor = _template(template, tokenizer)
    return tokenizer


def _template(pair: str, tokenizer: Tokenizer) -> processors.TemplateProcessing:
    tokens = [(token, tokenizer.token_to_id(token)) for token in ("<cls>", "<sep>")]
    return processors.TemplateProcessing(single="$A <sep>", pair=pair, special_tokens=tokens)


KINDS = {
    "bert": lambda: _fast(wordpiece(), cls_token="<cls>"),
    "roberta": lambda: _fast(byte_level(), cls_token="<cls>", model_input_names=["input_ids", "attention_mask"]),
    "t5": lambda: _fast(metaspace("$A:0 <sep>:0 $B:0 <sep>:0"), model_input_names=["input_ids", "attention_mask"]),
    "xlnet": lambda: _fast(metaspace("$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"), cls_token="<cls>", padding_side="left"),
}


def _fast(tokenizer: Tokenizer, **settings) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", sep_token="<sep>", **settings)


@pytest.fixture(params=KINDS, scope="module")
def tokenizer(request) -> PreTrainedTokenizerFast:
    return KINDS[request.param]()


def windows_of(tokenizer, *, context: str = CONTEXT, question: str = QUESTION, room: int = 20, doc_stride: int = 6):
    """`room` tokens of context in a window."""
    asked = len(tokenizer(question.strip(), add_special_tokens=False)["input_ids"])
    length = asked + tokenizer.num_special_tokens_to_add(pair=True) + room
    return make_windows(tokenizer, [question], [context], max_length=length, doc_stride=doc_stride)


def context_tokens(windows, number: int) -> list[int]:
    inside = [place for place, span in enumerate(windows["offsets"][number]) if span != OUTSIDE]
    return [windows["input_ids"][number][place] for place in inside]


def test_windows_overlap_and_together_hold_the_whole_context(tokenizer):
    windows = windows_of(tokenizer)
    parts = [context_tokens(windows, number) for number in range(len(windows["row"]))]
    assert len(parts) > 2
    assert {len(part) for part in parts[:-1]} == {20}
    whole = parts[0]
    for before, after in pairwise(parts):
        assert before[-6:] == after[:6]
        whole = whole + after[6:]
    everything = windows_of(tokenizer, room=500)
    assert whole == context_tokens(everything, 0)
    assert len(everything["row"]) == 1


def test_every_window_begins_with_the_question(tokenizer):
    windows = windows_of(tokenizer)
    asked = tokenizer(QUESTION, add_special_tokens=False)["input_ids"]
    for ids in windows["input_ids"]:
        begin = 1 if ids[0] == tokenizer.cls_token_id else 0
        assert ids[begin : begin + len(asked)] == asked


@pytest.mark.parametrize("answer", ["October 1973", "1973", "The", "shock", "US$12", "U.S.", "OAPEC"])
def test_an_answer_is_found_in_each_window_that_holds_all_of_it(tokenizer, answer):
    windows = windows_of(tokenizer)
    start = CONTEXT.rindex(answer)
    span = (start, start + len(answer))
    found = answer_positions(windows, [CONTEXT], [span], cls_token_id=tokenizer.cls_token_id)
    held = 0
    for number, (first, last) in enumerate(zip(found["start_positions"], found["end_positions"], strict=True)):
        offsets = windows["offsets"][number]
        inside = [place for place in offsets if place != OUTSIDE]
        if inside[0][0] <= span[0] and inside[-1][1] >= span[1]:
            held += 1
            text = CONTEXT[offsets[first][0] : offsets[last][1]]
            # "US$12" may be one token with the semicolon after it: all of the answer, and not a token more.
            assert answer in text
            assert offsets[first][1] > span[0]
            assert offsets[last][0] < span[1]
        else:
            marked = windows["input_ids"][number][first]
            assert first == last
            assert offsets[first] == OUTSIDE
            assert marked == tokenizer.cls_token_id or tokenizer.cls_token_id is None
    assert held >= 1


def test_spaces_around_question_context_and_answer_change_nothing_but_the_characters(tokenizer):
    plain = windows_of(tokenizer, room=500)
    spaced = windows_of(tokenizer, context="\n " + CONTEXT, question="   " + QUESTION + "  ", room=500)
    start = CONTEXT.index("October")
    here = answer_positions(plain, [CONTEXT], [(start, start + 7)], cls_token_id=tokenizer.cls_token_id)
    # The answer as sloppy data has it: with the space before it.
    there = answer_positions(spaced, ["\n " + CONTEXT], [(start + 1, start + 9)], cls_token_id=tokenizer.cls_token_id)
    text = [
        context[
            windows["offsets"][0][found["start_positions"][0]][0] : windows["offsets"][0][found["end_positions"][0]][1]
        ]
        for context, windows, found in ((CONTEXT, plain, here), ("\n " + CONTEXT, spaced, there))
    ]
    assert [part.strip() for part in text] == ["October", "October"]


def test_characters_that_the_tokenizer_drops_do_not_lose_an_answer():
    tokenizer = KINDS["bert"]()
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    context = "​Oil crisis​"  # zero-width spaces have no token
    windows = windows_of(tokenizer, context=context, room=50)
    found = answer_positions(windows, [context], [(0, len(context))], cls_token_id=tokenizer.cls_token_id)
    first, last = found["start_positions"][0], found["end_positions"][0]
    assert context[windows["offsets"][0][first][0] : windows["offsets"][0][last][1]] == "Oil crisis"


def test_a_tokenizer_that_cuts_on_the_left_begins_with_the_last_window():
    tokenizer = KINDS["bert"]()
    tokenizer.truncation_side = "left"
    windows = windows_of(tokenizer)
    firsts = [next(span for span in offsets if span != OUTSIDE) for offsets in windows["offsets"]]
    assert firsts == sorted(firsts, reverse=True)
    found = answer_positions(windows, [CONTEXT], [(0, 3)], cls_token_id=tokenizer.cls_token_id)
    places = zip(windows["offsets"], found["start_positions"], strict=True)
    assert [offsets[place] for offsets, place in places if place > 0] == [(0, 3)]


def test_rows_keep_their_own_windows_and_answers(tokenizer):
    contexts = ["It was in March.", CONTEXT]
    windows = make_windows(tokenizer, ["When?", QUESTION], contexts, max_length=64, doc_stride=4)
    assert windows["row"][0] == 0
    assert set(windows["row"][1:]) == {1}
    spans = [(10, 15), (CONTEXT.index("OAPEC"), CONTEXT.index("OAPEC") + 5)]
    found = answer_positions(windows, contexts, spans, cls_token_id=tokenizer.cls_token_id)
    texts = set()
    for number, row in enumerate(windows["row"]):
        first, last = found["start_positions"][number], found["end_positions"][number]
        if windows["offsets"][number][first] != OUTSIDE:
            start, end = windows["offsets"][number][first][0], windows["offsets"][number][last][1]
            texts.add((row, contexts[row][start:end].strip(" .,")))
    assert texts == {(0, "March"), (1, "OAPEC")}


def test_a_question_that_leaves_no_room_is_refused_with_the_numbers():
    tokenizer = KINDS["bert"]()
    asked = len(tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    check_windows(tokenizer, [QUESTION], max_length=asked + 3 + 9, doc_stride=8, where="train")
    told = rf"row 1 of train: its question of {asked} tokens leaves 9 of max_length={asked + 12} .* doc_stride=9: raise"
    with pytest.raises(ValueError, match=told):
        check_windows(tokenizer, ["?", QUESTION], max_length=asked + 3 + 9, doc_stride=9, where="train")
