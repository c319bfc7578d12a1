"""A pretrained model's config, tokenizer and weights, with the head that a task needs."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mgpp.artifact import is_sparse, load_sparse
from mgpp.artifact.model import checked
from mgpp.artifact.source import no_model_in
from mgpp.tasks.labels import LabelColumn, LabelSpace, check_fit

WEIGHT_FILES = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")


@dataclass(frozen=True)
class Pretrained:
    """All of a model but its weights, which are loaded last, when everything else has been found in order."""

    name: str
    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerBase
    trust_remote_code: bool = False

    @property
    def labels(self) -> LabelSpace | None:
        """What the classification head that the model brings tells apart, if it brings one."""
        if not any(name.endswith("ForSequenceClassification") for name in self.config.architectures or ()):
            return None
        names = tuple(name for _, name in sorted((self.config.id2label or {}).items()))
        return LabelSpace(names if len(names) > 1 else ())

    def has_head_of(self, auto_class: Any) -> bool:
        """True where the saved model is one that `auto_class` makes, so that no part of it would be random."""
        kinds = auto_class._model_mapping.get(type(self.config), ())
        names = {kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,))}
        return bool((names | {self._own(auto_class)}) & set(self.config.architectures or ()))

    def _own(self, auto_class: Any) -> str | None:
        """The class that the model's own code has for this."""
        own = (getattr(self.config, "auto_map", None) or {}).get(auto_class.__name__)
        return own.rpartition(".")[2] if isinstance(own, str) and self.trust_remote_code else None

    def check_kind(self, auto_class: Any, *, what: str) -> None:
        if type(self.config) not in auto_class._model_mapping and self._own(auto_class) is None:
            raise ValueError(f"{self.name} is a {self.config.model_type}, and transformers has none for {what}")

    def check_length(self, max_length: int) -> None:
        # RoBERTa's positions start after the padding index: its tokenizer, not its config, knows the true limit.
        positions = getattr(self.config, "max_position_embeddings", None) or max_length
        limit = min(self.tokenizer.model_max_length, positions)
        if max_length > limit:
            raise ValueError(
                f"max_length={max_length} is more than the {limit} tokens that the model and its tokenizer can read: "
                f"give --max-length {limit}, or less"
            )

    def load_classifier(self, space: LabelSpace, *, new_head: bool = False) -> PreTrainedModel:
        """With a head for the classes of `space`, or for one number."""
        config = self.config
        config.num_labels = space.num_labels
        if not space.is_regression:
            config.id2label = dict(enumerate(space.names))
            config.label2id = {name: number for number, name in enumerate(space.names)}
        config.problem_type = "regression" if space.is_regression else "single_label_classification"
        return self.load(AutoModelForSequenceClassification, ignore_mismatched_sizes=new_head)

    def load(self, auto_class: Any, **options: Any) -> PreTrainedModel:
        """The weights, under the head of `auto_class`; one that the model does not bring is random."""
        config = self.config
        words = getattr(config.get_text_config(), "vocab_size", None)
        if words is not None and len(self.tokenizer) > words:
            known = f"{len(self.tokenizer):,} tokens and the model {words:,}"
            raise ValueError(f"the tokenizer of {self.name} knows {known}: put the model's own beside it")
        if config.get_text_config().pad_token_id is None:
            config.get_text_config().pad_token_id = self.tokenizer.pad_token_id
        options |= {"config": config, "trust_remote_code": self.trust_remote_code}
        # float32 whatever the file holds: a bfloat16 master weight would lose most of an Adam step.
        return _fetched(self.name, "weights", lambda: _load(auto_class, self.name, dtype=torch.float32, **options))


def find_pretrained(model: str, *, trust_remote_code: bool = False) -> Pretrained:
    """`model` is a folder that save_pretrained wrote, or a hub id.

    Never left to transformers: where nothing is said of a model's own code it asks at the terminal whether to run it.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        model = str(folder)
    elif folder.exists() or model.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{model} is no model folder: give a folder with config.json and weights, or a hub id")
    trust = {"trust_remote_code": trust_remote_code}
    config = _fetched(model, "config", lambda: checked(AutoConfig.from_pretrained(model, **trust)))
    tokenizer = _fetched(model, "tokenizer", lambda: AutoTokenizer.from_pretrained(model, **trust))
    # Where a folder has no tokenizer files transformers makes an empty one, to which every word is unknown.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(f"{model} holds no tokenizer (tokenizer.json): save the model's tokenizer beside it")
    if not isinstance(tokenizer.model_max_length, int | float):
        told = f"model_max_length={tokenizer.model_max_length!r}"
        raise ValueError(f"{told} in the tokenizer of {model} is no number: save the model's tokenizer beside it")
    if tokenizer.pad_token is None:  # decoders are trained without padding
        tokenizer.pad_token = tokenizer.eos_token
    return Pretrained(model, config, tokenizer, trust_remote_code)


def fit_head(pretrained: Pretrained, data: LabelSpace, labels: LabelColumn, *, new_head: bool) -> LabelSpace:
    """The label space of the head that the model brings where it fits; else the data's, with a fresh head."""
    head = pretrained.labels
    if head is None or new_head:
        return data
    if head.num_labels != data.num_labels:
        raise ValueError(
            f"{pretrained.name} has a head for {head} and the data has {data}: correct the labels, or put a fresh head "
            "in its place (--new-head)"
        )
    check_fit(head, labels, where="train", known=f"the head of {pretrained.name}")
    return head


def _load(auto_class: Any, name: str, *, config: PreTrainedConfig, **options: Any) -> PreTrainedModel:
    """`auto_class.from_pretrained`, which is handed the weights of a sparse folder: it could not read them there."""
    if not is_sparse(name):
        return auto_class.from_pretrained(name, config=config, **options)
    trust = {"trust_remote_code": options.pop("trust_remote_code")}
    with torch.device("meta"):
        kind = type(auto_class.from_config(config, **trust))
    stored = load_sparse(name)
    model = kind.from_pretrained(None, config=config, state_dict=stored.state_dict(), **options)
    if model.can_generate() and hasattr(stored, "generation_config"):
        model.generation_config = stored.generation_config
    return model


def _check_folder(folder: Path) -> None:
    config = folder / "config.json"
    if not config.is_file():
        raise FileNotFoundError(no_model_in(folder))
    try:
        json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{config} is no valid JSON ({error}): save the model again") from None
    if not any(any(folder.glob(pattern)) for pattern in WEIGHT_FILES):
        raise FileNotFoundError(f"{folder} holds no weights (model.safetensors): save the model there, or give another")


def _fetched(model: str, what: str, load: Callable[[], Any]) -> Any:
    """transformers answers a missing file, an unknown name and no network with many lines each: say it in one."""
    try:
        return load()
    except Exception as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{model} needs Python code of its own; if you trust that code, pass --trust-remote-code"
            ) from error
        if Path(model).is_dir():
            raise ValueError(
                f"the {what} in {model} cannot be loaded, is each file there and whole? ({first})"
            ) from error
        raise OSError(
            f"{model!r} is no local folder, and fetching its {what} from the Hugging Face hub failed: check the name "
            f"and the connection ({first})"
        ) from error
