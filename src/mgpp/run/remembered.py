"""What the folder of a run's model knows of how that model is scored: its task, its columns, its lengths."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mgpp.run.config import RunConfig
from mgpp.run.folder import RUN_FILE

# What rows mean and how they are cut. Not which rows they are, nor whose code is trusted: that is said each time.
REMEMBERED = (
    "task", "text", "text_pair", "label", "max_length", "doc_stride", "max_answer_length", "n_best", "target_length",
    "beams", "source_prefix", "mlm_probability",
)  # fmt: skip


def remembered(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the run that made `model`, but for those that are `given`; of another task, none."""
    config = _beside(model)["config"]
    if given.get("task", config.get("task")) != config.get("task"):
        return {}
    return {name: config[name] for name in REMEMBERED if config.get(name) is not None and name not in given}


def describe(settings: Mapping[str, Any]) -> str:
    """Those that say more than what every run has by default."""
    defaults = {name: RunConfig.__dataclass_fields__[name].default for name in REMEMBERED}
    told = {name: value for name, value in settings.items() if name == "task" or value != defaults[name]}
    return ", ".join(f"{name} {value}" for name, value in told.items())


def learnt_from(model: str, data: Any) -> bool:
    """Whether `data` is the very file that the run of `model` trained on. Of a folder other rows are scored."""
    learnt = _beside(model)["config"].get("data")
    if not isinstance(data, str) or not isinstance(learnt, str):
        return False
    file = Path(data).expanduser()
    return file.is_file() and file.resolve() == Path(learnt).expanduser().resolve()


def check_as_learnt(model: str, texts: Sequence[str], data: str | None) -> None:
    """Refuse pairs for a model whose run learnt from single texts, and the other way round."""
    learnt = _beside(model)["texts"]
    if learnt and texts and len(learnt) != len(texts):
        raise ValueError(
            f"{model} learnt from {_told(learnt)} and {data} would be read as {_told(texts)}: say which columns fit "
            "(--text, --text-pair), or give other rows"
        )


def _told(texts: Sequence[str]) -> str:
    return f"{'pairs' if len(texts) > 1 else 'single texts'} ({' + '.join(texts)})"


def _beside(model: str) -> dict[str, Any]:
    """The config of the run that made it, and the columns that it read; nothing of a model that no run made."""
    path = Path(model).expanduser() / RUN_FILE
    if not path.is_file():
        return {"config": {}, "texts": []}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        config, texts = known["config"], known.get("texts", [])
        _check(config)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"texts is {texts!r}")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} should say how {model} is scored, and is damaged ({error}): remove it, and say --task"
        ) from None
    return {"config": config, "texts": texts}


def _check(config: Any) -> None:
    for name in REMEMBERED:
        value = config.get(name) if isinstance(config, dict) else config
        kind: Any = RunConfig.__dataclass_fields__[name].type
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}")
