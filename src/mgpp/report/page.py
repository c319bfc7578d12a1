"""One HTML file that answers what a person asks of a run, or of several side by side. It loads nothing."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from mgpp.markup import Html, join, table, tag
from mgpp.methods import title_of
from mgpp.report.advice import advice_for, against_l2
from mgpp.report.answers import answers_for, model_name
from mgpp.report.charts import charts, where
from mgpp.report.payload import payload_of
from mgpp.report.run import Run
from mgpp.report.ways import Advice

SCRIPTS = ("draw.js", "lines.js", "heat.js", "sizes.js", "page.js")


def write_page(runs: Sequence[Run], path: Path) -> Path:
    page = make_page(runs).encode("utf-8", "replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page)
    return path


def make_page(runs: Sequence[Run]) -> str:
    style, script = asset("page.css"), "".join(asset(name) for name in SCRIPTS)
    title = _title(runs)
    head = tag(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        # Nothing may be loaded, and only this very script may run: whatever a model is called, it stays a name.
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "To the answers", class_="skip", href="#short"),
        _header(title, runs),
        tag("main", _short(runs), _next(runs), charts(runs), where(runs), *_facts(runs)),
        tag("footer", "Made by mgpp from records.jsonl and result.json. Nothing here was loaded from a network."),
        Html(f'<script type="application/json" id="data">{_json(payload_of(runs))}</script>'),
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def asset(name: str) -> str:
    return files("mgpp.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def _json(value: Any) -> str:
    """As JSON that cannot end the element it stands in: no < is left in it."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _title(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs: {', '.join(run.name for run in runs)}"
    (run,) = runs
    if run.method is None:
        return f"{model_name(run)}, dense"
    done = run.events[-1]["sparsity"] if run.events else 0.0
    return f"{model_name(run)}, {done:.1%} sparse by {title_of(run.method)}"


def _header(title: str, runs: Sequence[Run]) -> Html:
    sections = {
        "short": "In short",
        "next": "What to change next",
        "curves": "Curves",
        "where": "Layers",
        "settings": "Settings",
        "environment": "Environment",
        "load": "How to load it",
    }
    if not any(run.method is not None for run in runs):
        del sections["where"]
    links = [tag("li", tag("a", name, href=f"#{key}")) for key, name in sections.items()]
    data = list(dict.fromkeys(str((run.config or {}).get("data", "")) for run in runs))
    return tag(
        "header",
        tag(
            "div",
            tag(
                "div",
                tag("h1", title),
                tag("p", f"Data: {', '.join(filter(None, data)) or 'not told'}", class_="quiet"),
            ),
            tag("button", "Colours: as the system", id="theme", type="button"),
            class_="top",
        ),
        tag("nav", tag("ul", *links), aria_label="Sections"),
    )


def _short(runs: Sequence[Run]) -> Html:
    columns = [answers_for(run, runs) for run in runs]
    rows = [[row[0].question, *(answer.answer for answer in row)] for row in zip(*columns, strict=True)]
    head = [] if len(runs) == 1 else ["", *(f"{run.name} ({run.label})" for run in runs)]
    answers = Html(table(rows, head=head).replace("<table>", f'<table class="answers{" one" * (len(runs) == 1)}">', 1))
    said = against_l2(runs)
    return tag(
        "section", tag("h2", "In short"), _scroll(answers, "Answers"), *([tag("p", said)] if said else []), id="short"
    )


def _next(runs: Sequence[Run]) -> Html:
    """What holds for several runs is said once."""
    found: dict[Advice, list[str]] = {}
    for run in runs:
        for advice in advice_for(run, runs):
            found.setdefault(advice, []).append(run.name)
    ranked = sorted(found.items(), key=lambda item: item[0].kind != "problem")
    items = [_advice(advice, names if len(runs) > 1 else []) for advice, names in ranked]
    told = tag("ul", *items, class_="advice") if items else tag("p", "Nothing stands out in these records.")
    note = tag(
        "p", "Read from the records by plain rules; what is suggested is to be tried, not known.", class_="quiet"
    )
    return tag("section", tag("h2", "What to change next"), told, note, id="next")


def _advice(advice: Advice, names: Sequence[str]) -> Html:
    return tag(
        "li",
        tag("p", f"{', '.join(names)}: {advice.kind}" if names else advice.kind, class_="kind"),
        tag("p", advice.seen),
        tag("p", advice.change, class_="change"),
        class_=advice.kind,
    )


def _facts(runs: Sequence[Run]) -> list[Html]:
    sections = [
        ("settings", "Settings", _settings(runs)),
        ("environment", "Environment", [_environment(run) for run in runs]),
        ("load", "How to load it", [_loading(run) for run in runs]),
    ]
    return [
        tag("section", tag("h2", name), tag("div", *parts, class_="columns"), id=key) for key, name, parts in sections
    ]


def _settings(runs: Sequence[Run]) -> list[Html]:
    """Of one run its method and its training; of several what differs, and folded away what does not."""
    if len(runs) == 1:
        return [_plain_table(values, name) for name, values in _settings_of(runs[0]).items() if values]
    flat = [{**groups["Method"], **groups["Training"]} for groups in map(_settings_of, runs)]
    keys = list(dict.fromkeys(key for values in flat for key in values))
    rows = {key: [_plain(values[key]) if key in values else "–" for values in flat] for key in keys}
    differing = [(key, *row) for key, row in rows.items() if len(set(row)) > 1]
    alike = {key: row[0] for key, row in rows.items() if len(set(row)) == 1}
    head = ["", *(run.name for run in runs)]
    return [
        tag("div", _scroll(table(differing, head=head, caption="What differs"), "What differs"), class_="wide"),
        tag("details", tag("summary", "What is the same in all"), _plain_table(alike, "The same in all")),
    ]


def _settings_of(run: Run) -> dict[str, dict[str, Any]]:
    schedule, method = run.schedule or {}, run.method or {"method": "none"}
    steps = {
        key: f"{value}: step {schedule[key]}" for key, value in method.items() if schedule.get(key, value) != value
    }
    training = {key: value for key, value in (run.config or {}).items() if key != "method" and value not in (None, [])}
    return {"Method": {**method, **steps}, "Training": training}


def _environment(run: Run) -> Html:
    result = run.result
    if result is None:
        return tag("div", *_named(run), tag("p", "Written when a run is finished."))
    told = {**result.get("versions", {}), **result.get("hardware", {}), "commit": result.get("commit")}
    told = {key: value for key, value in told.items() if value is not None}
    return tag("div", *_named(run), _plain_table({**told, "seed": result.get("seed")}, "Measured on"))


def _loading(run: Run) -> Html:
    if run.result is None:
        return tag("div", *_named(run), tag("p", "The model is written when the run is finished."))
    kind, folder = _class_of(run.folder), json.dumps(str(run.folder))
    code = (
        f"from transformers import AutoTokenizer, {kind}\n\n"
        f"model = {kind}.from_pretrained({folder})\n"
        f"tokenizer = AutoTokenizer.from_pretrained({folder})"
    )
    return tag("div", *_named(run), tag("pre", tag("code", code), tabindex="0"))


def _class_of(folder: Path) -> str:
    """The class that the checkpoint's config.json names."""
    try:
        return str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return "AutoModel"


def _named(run: Run) -> list[Html]:
    return [tag("h3", run.name)]


def _plain_table(values: dict[str, Any], caption: str) -> Html:
    return _scroll(table(((key, _plain(value)) for key, value in values.items()), caption=caption), caption)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _scroll(content: Html, label: str) -> Html:
    """What is too wide for a phone moves under the finger, and under the arrow keys."""
    return tag("div", join([content]), class_="scroll", tabindex="0", role="region", aria_label=label)
