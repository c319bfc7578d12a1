"""The train sets of Table 2 hold no row that is scored on."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiments.glue import parts
from experiments.lab import features
from safetensors import safe_open


def write(path, names: tuple[str, str], rows: list[tuple[str, str, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = [{names[0]: first, names[1]: second, "label": label} for first, second, label in rows]
    pq.write_table(pa.Table.from_pylist(table), path)


@pytest.fixture
def data(tmp_path, monkeypatch):
    tasks = dict(parts.TASKS)
    tasks["mnli"] = parts.Parts(**{**vars(tasks["mnli"]), "train": {"mnli/train_partial": None, "snli/train_100k": 2}})
    monkeypatch.setattr(parts, "TASKS", tasks)
    for task, made in tasks.items():
        classes = 3 if task == "mnli" else 2
        for name in made.train:
            rows = [(f"{name} {number} good", f"bad {name} {number}", number % classes) for number in range(9)]
            write(tmp_path / "data" / f"{name}.parquet", made.texts, rows)
        scored = [(f"scored {task} {number}", f"{number} scored {task}", number % classes) for number in range(5)]
        write(tmp_path / "data" / f"{made.scored}.parquet", made.texts, scored)
    return tmp_path / "data"


def rows_of(path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def test_a_train_set_is_its_parts_shuffled_always_alike(data, tmp_path):
    parts.main(str(data), str(tmp_path / "once"))
    parts.main(str(data), str(tmp_path / "again"))
    once = rows_of(tmp_path / "once" / "mnli" / "train.parquet")
    assert once == rows_of(tmp_path / "again" / "mnli" / "train.parquet")
    premises = [row["premise"] for row in once]
    expected = [f"mnli/train_partial {number} good" for number in range(9)]
    expected += [f"snli/train_100k {number} good" for number in range(2)]
    assert sorted(premises) == sorted(expected)
    assert premises != expected
    assert [row["idx"] for row in once] == list(range(11))


def test_rows_that_share_a_text_with_a_scored_one_and_doubles_are_left_out_and_counted(data, tmp_path):
    rows = [
        ("A  new question", "another", 0),
        ("a new Question", "Another", 1),  # the same once more
        ("Scored QQP  3", "another", 0),
        ("another", "scored qqp 2", 0),
        ("other", "words", 1),
    ]
    write(data / "qqp" / "train_partial.parquet", ("question1", "question2"), rows)
    told = parts.make("qqp", data, tmp_path)
    assert told == ("qqp: 2 rows to train on, 5 to score on; 2 dropped that share a text with them, 1 that were double")
    kept = rows_of(tmp_path / "qqp" / "train.parquet")
    assert sorted((row["question1"], row["label"]) for row in kept) == [("A  new question", 0), ("other", 1)]


@pytest.mark.parametrize(("task", "scored"), [("mnli", "matched"), ("qnli", "validation"), ("qqp", "validation")])
def test_the_laboratory_reads_what_was_made(data, tmp_path, tiny_bert, task, scored):
    parts.make(task, data, tmp_path / "made")
    features.main(str(tiny_bert), str(tmp_path / "made"), str(tmp_path / "features"), task)
    with safe_open(tmp_path / "features" / f"{task}.safetensors", "pt") as file:
        sizes = {part: len(file.get_tensor(f"{part}.labels")) for part in ("train", scored)}
        assert {name.partition(".")[0] for name in file.keys()} == sizes.keys()  # noqa: SIM118  (no dict)
        assert file.metadata()["metric"].endswith("accuracy")
    assert sizes == {"train": {"mnli": 11, "qnli": 18, "qqp": 9}[task], scored: 5}
