"""The documentation is true as far as a machine can tell: its code runs, its commands parse, its figures are drawn."""

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mgpp
from mgpp.cli import app as cli
from mgpp.functional.structure import Groups, parse_structure
from mgpp.run import RunConfig, run
from mgpp.targets import find_targets
from tests.pages import BLOCKS, PAGES, ROOT, Block, code_in_sentences, commands_in, count_zeros, given
from tests.tiny import RAMP

COMMANDS = {name: cli.load(name) for name in cli.COMMANDS}
PYTHON = [block for block in BLOCKS if block.language == "python"]
TYPED = [(block, words) for block in BLOCKS if block.language in ("", "sh") for words in commands_in(block)]


@pytest.fixture(scope="module")
def pruned_run(tmp_path_factory, tiny_bert, tiny_reviews):
    out = tmp_path_factory.mktemp("pages") / "out"
    method = mgpp.MGPP(**RAMP)
    run(RunConfig(model=str(tiny_bert), data=str(tiny_reviews), output=str(out), method=method, max_steps=10))
    return out


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_bert, tiny_reviews, pruned_run):
    for name, source in {"MODEL": tiny_bert, "DATA": tiny_reviews, "out": pruned_run}.items():
        shutil.copytree(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:no layer of")  # of a tiny model none is faster sparse
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_code_runs_and_prunes_as_it_says(block, folder, tiny_bert):
    names = given(folder, tiny_bert)
    exec(compile(block.text, str(block), "exec"), names)
    if "PruningCallback" in block.text or block.page.startswith("docs/methods/"):
        assert count_zeros(names["model"]) > 0
    if 'structure="' in block.text:
        check_structure(block, names["model"])


def check_structure(block: Block, model) -> None:
    structure = parse_structure(re.search(r'structure="(.*?)"', block.text)[1])
    told = re.search(r"sparsity=([\d.]+)", block.text)
    asked = structure.sparsity if isinstance(structure, Groups) else float(told[1])
    shapes = [tuple(weight.shape) for weight in find_targets(model).values()]
    assert structure.least(shapes, asked) <= count_zeros(model) <= structure.most(shapes, asked)


class WouldRun(Exception):
    """The command was read, its settings fit together, and training would begin."""


@pytest.mark.parametrize(("block", "words"), TYPED, ids=[f"{block} {' '.join(words)}" for block, words in TYPED])
def test_commands_are_understood_as_they_are_written(block, words, monkeypatch):
    command, rest = named_by(words)
    command.make_context(words[0], list(rest))  # reads every option and argument, and calls nothing
    reads_a_file = any(word.endswith(".toml") for word in rest)
    if words[0] in ("prune", "finetune") and not reads_a_file:
        monkeypatch.setattr("mgpp.cli.train.run", would_run)
        with pytest.raises(WouldRun):
            cli.app(words, standalone_mode=False)


def would_run(*args, **kwargs):
    raise WouldRun


def named_by(words: list[str]) -> tuple[Any, list[str]]:
    """The command, or a command's command, and the words left for it."""
    command, rest = COMMANDS[words[0]], words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def options_of(command: Any) -> set[str]:
    return {flag for option in command.params for flag in option.opts + option.secondary_opts} | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_named_in_sentences_exist(page):
    known = set().union(*(options_of(command) for command in COMMANDS.values()))
    for code in code_in_sentences(page):
        words = [word.rstrip(",.:;") for word in code.split()]
        if words[0] == "mgpp" and len(words) > 1 and not words[1].startswith("-"):
            assert words[1] in COMMANDS, code
            command, rest = named_by(words[1:])
            assert {word for word in rest if word.startswith("--")} <= options_of(command), code
        elif words[0].startswith("--") and len(words[0]) > 2:
            assert words[0] in known, code


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")  # mkdocs looks at the others
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith(("#", "http"))]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_public_name_is_on_the_api_page():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: mgpp\.(\w+)$", text, flags=re.MULTILINE)) == sorted(mgpp.__all__)


def test_figures_are_what_their_scripts_draw(tmp_path):
    pytest.importorskip("matplotlib")
    committed = ROOT / "docs" / "figures"
    to = tmp_path / "figures"
    to.mkdir()
    loaded(committed / "draw.py").draw(to)
    loaded(ROOT / "experiments" / "glue" / "figure.py").draw_all(to, tmp_path / "runs")
    drawn = {path.name for path in to.iterdir()}
    assert drawn == {path.name for path in committed.glob("*.svg")}
    for name in drawn:
        # Another machine may round otherwise.
        numbers = pytest.approx(numbers_of(committed / name), abs=0.1)
        assert numbers_of(to / name) == numbers, f"{name}: run docs/figures/draw.py, experiments/glue/figure.py again"


def loaded(script: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers_of(figure: Path) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.\d+", figure.read_text(encoding="utf-8"))]
