"""What is read cannot run code, lead elsewhere, or tell a secret; docs/reliability.md says so."""

import ast
import importlib.util
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datasets")

from safetensors.torch import load_file, save_file

from mgpp.checkpoint import STATE_FILE, read_state
from mgpp.cli import main
from mgpp.presets import load_preset
from mgpp.presets.read import RUN_KEYS
from mgpp.sweep.study import open_storage
from tests.tiny import save_tiny_bert

ROOT = Path(__file__).parent.parent
SHORT = ["--max-steps=2", "--batch-size=4", "--max-length=16", "--device=cpu", "--logging-steps=1", "--save-steps=1"]
RAMP = ["-s", "0.5", "--set", "start=0", "--set", "end=1", "--set", "every=1"]
CANARY = "hf_canaryDoNotPrintMe0123456789abcdef"


# What the source says


def calls(folder: str) -> list[tuple[Path, ast.Call, str]]:
    """Every call in a folder's Python files, with the name that is called: torch.load."""
    return [
        (path, node, ast.unparse(node.func))
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def given(call: ast.Call, name: str) -> str | None:
    """What a call passes under this name; several at once are looked into only by their own name, `**trust`."""
    told = {word.arg or ast.unparse(word.value): ast.unparse(word.value) for word in call.keywords}
    return told.get(name)


def test_nothing_that_can_run_code_is_read():
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.partition(".")[0] for name in names}, path
    for path, call, name in calls("src"):
        assert name not in ("eval", "exec", "yaml.load", "yaml.unsafe_load", "np.load", "numpy.load"), path
        assert name != "torch.load" or given(call, "weights_only") == "True", path


@pytest.mark.parametrize("folder", ["src", "experiments", "benchmarks", "examples"])
def test_an_archive_is_unpacked_into_its_own_folder_alone(folder):
    for path, call, name in calls(folder):
        # zipfile takes leading slashes and dots out by itself; tarfile is told to.
        if name.endswith(".extractall") and "tarfile" in path.read_text(encoding="utf-8"):
            in_zip = "zipfile.ZipFile" in ast.unparse(_with_around(path, call))
            assert in_zip or given(call, "filter") == "'data'", path


def _with_around(path: Path, call: ast.Call) -> ast.AST:
    blocks = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.With)]
    return next(node for node in blocks if node.lineno <= call.lineno <= (node.end_lineno or 0))


def test_wherever_a_model_could_bring_code_it_is_said_whether_to_run_it():
    """Where nothing is said transformers asks at the terminal, and a yes runs it."""
    auto = ("AutoConfig", "AutoTokenizer", "AutoModel", "auto_class", "kind", "auto")
    for path, call, name in calls("src"):
        owner, _, method = name.rpartition(".")
        if method != "from_pretrained" or not owner.startswith(auto):
            continue
        said = given(call, "trust_remote_code") or given(call, "trust") or given(call, "options")
        own_class = owner == "kind" and path.name in ("layers.py", "pretrained.py")  # a class of transformers itself
        assert said is not None or own_class, f"{path}: {name}"


# Files that would run code


class Attack:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (exec, (f"open({str(self.trace)!r}, 'w').close()",))


def as_torch_file(path: Path, content: object) -> None:
    import torch

    torch.save(content, path)


def test_weights_that_are_a_pickle_with_code_are_refused(tmp_path, tiny_reviews, capsys):
    model, trace = save_tiny_bert(tmp_path / "bert"), tmp_path / "trace"
    (model / "model.safetensors").unlink()
    as_torch_file(model / "pytorch_model.bin", {"x": Attack(trace)})
    for words in (["prune", str(model), str(tiny_reviews), "-o", str(tmp_path / "out"), *RAMP, *SHORT],
                  ["export", str(model), "-o", str(tmp_path / "out")]):  # fmt: skip
        assert main(words) == 2
        assert capsys.readouterr().err.count("mgpp: ") == 1
    assert not trace.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_with_code_in_it_is_not_resumed(name, tmp_path, tiny_bert, tiny_reviews, capsys):
    words = ["prune", str(tiny_bert), str(tiny_reviews), "-o", str(tmp_path / "out"), *RAMP, *SHORT]
    assert main([*words, "--keep-checkpoints"]) == 0
    (tmp_path / "out" / "result.json").unlink()
    trace = tmp_path / "trace"
    shutil.rmtree(tmp_path / "out" / "checkpoints" / "checkpoint-2")  # no step follows it: its files are not read
    for checkpoint in (tmp_path / "out" / "checkpoints").glob("checkpoint-*"):
        as_torch_file(checkpoint / name, {"state": Attack(trace)})
    capsys.readouterr()
    assert main([*words, "--resume", "--keep-checkpoints"]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert not trace.exists()


def test_the_attack_would_have_run(tmp_path):
    pickle.loads(pickle.dumps(Attack(tmp_path / "trace")))
    assert (tmp_path / "trace").exists()


# A model's own code


@pytest.fixture
def own_code(tmp_path, monkeypatch) -> Path:
    """A BERT under another name, whose classes come with it and leave a trace where they are run."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked at the terminal"))
    folder = save_tiny_bert(tmp_path / "own")
    (folder / "own.py").write_text(
        "from pathlib import Path\n"
        "from transformers import BertConfig, BertForSequenceClassification\n"
        f"Path({str(tmp_path / 'trace')!r}).touch()\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
        "class OwnForSequenceClassification(BertForSequenceClassification):\n    config_class = OwnConfig\n"
    )
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnForSequenceClassification"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))
    return folder


def test_a_models_own_code_runs_only_when_asked(own_code, tiny_reviews, tmp_path, capsys):
    out, data = str(tmp_path / "out"), str(tiny_reviews)
    prune = ["prune", str(own_code), data, "-o", out, *RAMP, *SHORT]
    others = [["evaluate", str(own_code), data], ["export", str(own_code), "-o", out],
              ["finetune", str(own_code), data, "-o", out, *SHORT],
              ["prune", str(tmp_path / "own"), data, "--teacher", str(own_code), "-o", out, *RAMP, *SHORT],
              ["compare", str(own_code), data, "-o", out, "-m", "gmp", *SHORT]]  # fmt: skip
    for words in (prune, *others):
        assert main(words) == 2, words
        assert "if you trust that code, pass --trust-remote-code" in capsys.readouterr().err
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "out").exists()
    assert main([*prune, "--trust-remote-code"]) == 0
    assert f"mgpp: warning: running the Python code that {own_code} brings with it" in capsys.readouterr().err
    assert (tmp_path / "trace").exists()
    assert main(["evaluate", out, data, "--trust-remote-code"]) == 0
    assert main(["export", out, "--format=checkpoint", "-o", f"{out}-plain", "--trust-remote-code"]) == 0


def test_no_preset_can_say_whose_code_is_trusted(tmp_path):
    assert "trust_remote_code" not in RUN_KEYS
    (tmp_path / "p.toml").write_text("[run]\ntrust_remote_code = true\n")
    with pytest.raises(ValueError, match="there is no setting trust_remote_code"):
        load_preset(str(tmp_path / "p.toml"))


# Paths


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "bert-base/../../../x", ".", "..", "bert-base", ""])
def test_a_presets_name_cannot_lead_out_of_the_package(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text("[run]\nepochs = 1\n")
    assert main(["presets", "copy", name, "mine.toml"]) == 2
    assert not (tmp_path / "mine.toml").exists()
    assert capsys.readouterr().err.startswith("mgpp: there is no preset")


def test_overwriting_a_run_removes_nothing_beside_it(tmp_path, tiny_bert, tiny_reviews):
    words = ["prune", str(tiny_bert), str(tiny_reviews), "-o", str(tmp_path / "out"), *RAMP, *SHORT]
    assert main(words) == 0
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.txt").write_text("mine")
    (tmp_path / "out" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    result["files"] |= {"../mine.txt": 4, str(tmp_path / "mine.txt"): 4, "checkpoints/mine.txt": 4}
    (tmp_path / "out" / "result.json").write_text(json.dumps(result))
    main([*words, "--overwrite"])
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "elsewhere" / "mine.txt").read_text() == "mine"


def test_a_state_in_parts_is_read_from_its_own_folder(tmp_path):
    import torch

    (tmp_path / "state").mkdir()
    save_file({"moment/w": torch.ones(2)}, tmp_path / "part.safetensors", metadata={"mgpp": '{"spans": {"w": [0, 2]}}'})
    index = {"t": 1, "parts": ["../part.safetensors"]}
    save_file({}, tmp_path / "state" / STATE_FILE, metadata={"mgpp": json.dumps(index)})
    assert load_file(tmp_path / "part.safetensors")
    with pytest.raises(FileNotFoundError, match=r"state/part.safetensors is not there"):
        read_state(tmp_path / "state")


def test_an_export_carries_no_file_from_outside_the_model(tmp_path, tiny_bert, tiny_reviews, capsys):
    assert main(["prune", str(tiny_bert), str(tiny_reviews), "-o", str(tmp_path / "run"), *RAMP, *SHORT]) == 0
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / "tokenizer.secret").symlink_to(tmp_path / "secret")
    assert main(["export", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 2
    assert "leads out of the model's folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_export_follows_the_links_of_the_hubs_cache(tmp_path, tiny_bert, tiny_reviews):
    assert main(["prune", str(tiny_bert), str(tiny_reviews), "-o", str(tmp_path / "run"), *RAMP, *SHORT]) == 0
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "abc", tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in (tmp_path / "run").iterdir():
        path.rename(blobs / f"blob-{path.name}")
        (snapshot / path.name).symlink_to(Path("../../blobs") / f"blob-{path.name}")
    assert main(["export", str(snapshot), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert not (tmp_path / "out" / "tokenizer.json").is_symlink()


# Secrets


def test_the_hubs_token_is_never_printed_or_saved(tmp_path, tiny_bert, tiny_reviews, capfd, monkeypatch):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    model, data, run = str(tiny_bert), str(tiny_reviews), str(tmp_path / "run")
    kept = ["--keep-checkpoints", "--report-to=tensorboard"]
    assert main(["prune", model, data, "-o", run, *RAMP, *SHORT, *kept]) == 0
    for words in (
        ["evaluate", run, data, "--json"],
        ["export", run, "-o", str(tmp_path / "sparse"), "--json"],
        ["export", run, "-o", str(tmp_path / "pushed"), "--push", "owner/name"],
        ["report", run, "-o", str(tmp_path / "page.html"), "--json"],
        ["prune", "owner/no-such-model", data, "-o", str(tmp_path / "no")],
        ["prune", model, "owner/no-such-data", "-o", str(tmp_path / "no"), *RAMP],
        ["inspect", "owner/no-such-model"],
        [
            "sweep",
            model,
            data,
            "-o",
            str(tmp_path / "no"),
            *RAMP,
            *SHORT,
            "--storage",
            f"postgresql://me:{CANARY}@host/x",
        ],
        ["watch", run, "--once", "--json"],
    ):
        main(words)
    printed = capfd.readouterr()
    assert CANARY not in printed.out + printed.err
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 30
    for path in written:
        assert CANARY.encode() not in path.read_bytes(), path


def test_a_storages_password_is_not_in_its_error():
    urls = ("postgresql://me:{}@host/x", "nosuch://me:{}@host/x", "mysql://:{}@host/x", "mysql://host/x?password={}")
    for name in (url.format(CANARY) for url in urls):
        with pytest.raises(ValueError, match="cannot be opened") as told:
            open_storage(name)
        assert CANARY not in str(told.value)


# The audit


@pytest.fixture
def audit(monkeypatch):
    """`.ci/audit.py`, with what pip-audit would print."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    monkeypatch.setattr(module, "_installed", lambda: Path("python"))

    def say(answer: object) -> int:
        def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
            if isinstance(answer, Exception):
                raise answer
            return subprocess.CompletedProcess([], 1, stdout=json.dumps(answer) if answer else "", stderr="")

        monkeypatch.setattr(module, "_run", run)
        return module.main()

    return say


def package(*vulnerabilities: str, **more: str) -> dict:
    told = [{"id": name, "fix_versions": ["2.0"]} for name in vulnerabilities]
    return {"name": "x", "version": "1.0", **(more or {"vulns": told})}


def test_a_known_vulnerability_fails_the_audit(audit, capsys):
    assert audit({"dependencies": [package(), package("PYSEC-1")]}) == 1
    assert "x 1.0: PYSEC-1, mended in 2.0" in capsys.readouterr().out
    assert audit({"dependencies": [package()]}) == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"dependencies": [package(skip_reason="not found on PyPI")]},
        "",
        subprocess.TimeoutExpired("pip-audit", 25),
        subprocess.CalledProcessError(1, "pip", stderr="no network"),
        OSError("no such file"),
    ],
)
def test_an_audit_that_gets_no_answer_says_so_and_passes(answer, audit, capsys):
    assert audit(answer) == 0
    assert "audit skipped: " in capsys.readouterr().out
