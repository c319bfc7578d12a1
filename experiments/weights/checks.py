"""A model that was put together again says something sensible, or it was put together wrongly."""

from pathlib import Path

import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

ALIKE = ("A man is playing a guitar on stage.", "Somebody makes music with his guitar.")
OTHER = "The invoice was paid in March."


def embeds(folder: Path) -> str:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    batch = tokenizer([*ALIKE, OTHER], return_tensors="pt", padding=True)
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    means = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    near, far = float(means[0] @ means[1]), float(means[0] @ means[2])
    return _sure(near > far + 0.3, f"two sentences that say the same: cosine {near:.2f}; two that do not: {far:.2f}")


def entails(folder: Path) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    hypotheses = ["A man is making music.", "The man is asleep at home."]
    with torch.no_grad():
        logits = model(**tokenizer([ALIKE[0]] * 2, hypotheses, return_tensors="pt", padding=True)).logits
    true, false = logits.softmax(-1)[:, 0].tolist()
    return _sure(true > 5 * false, f"entailed, it says of a true hypothesis: {true:.3f}; of a false one: {false:.3f}")


def writes(folder: Path, *, source: str, target: str, word: str = "") -> str:
    """It writes `word`, and finds `target` likelier than the same words in another order."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    batch = tokenizer(source, return_tensors="pt")
    shuffled = " ".join(reversed(target.split()))
    with torch.no_grad():
        losses = [
            float(model(**batch, labels=tokenizer(text_target=text, return_tensors="pt")["input_ids"]).loss)
            for text in (target, shuffled)
        ]
    written = tokenizer.decode(model.generate(**batch, max_length=40, num_beams=4)[0], skip_special_tokens=True)
    good = word in written and losses[0] < losses[1]
    return _sure(good, f"{source!r} → {written!r}; loss {losses[0]:.2f}, with its words reversed {losses[1]:.2f}")


def continues(folder: Path, *, source: str, word: str) -> str:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    batch = tokenizer(source, return_tensors="pt")
    written = tokenizer.decode(model.generate(**batch, max_new_tokens=24, do_sample=False)[0], skip_special_tokens=True)
    return _sure(word in written, f"{written!r}")


def _sure(good: bool, told: str) -> str:
    if not good:
        raise ValueError(f"the model is not what it should be: {told}")
    return told
