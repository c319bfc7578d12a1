"""Records survive crashes and rewinding."""

from mgpp import records


def test_a_line_cut_short_by_a_crash_is_not_a_record(tmp_path):
    path = tmp_path / "records.jsonl"
    records.append(path, {"event": "prune", "step": 1})
    with path.open("a") as file:
        file.write('{"event": "pru')
    assert records.read(path) == [{"event": "prune", "step": 1}]


def test_rewinding_forgets_what_came_later_and_what_was_cut_short(tmp_path):
    path = tmp_path / "records.jsonl"
    for step in (0, 5, 6, 7):
        records.append(path, {"event": "prune", "step": step, "cut": 0.1 * step})
    before = path.read_bytes().splitlines(keepends=True)
    with path.open("a") as file:
        file.write('{"event": "pru')
    records.rewind(path, 6)
    assert path.read_bytes().splitlines(keepends=True) == before[:3]


def test_rewinding_a_file_that_is_not_there_is_no_error(tmp_path):
    records.rewind(tmp_path / "records.jsonl", 3)
    assert not list(tmp_path.iterdir())
