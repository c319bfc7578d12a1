"""A folder never holds half a model: not after an error, not on a full disk."""

import resource

import pytest

from mgpp.artifact import load_sparse, save_sparse
from mgpp.artifact.draft import drafted
from mgpp.artifact.shards import WEIGHTS_FILE
from tests.artifact.models import make
from tests.toy import Toy, assert_identical


def test_files_appear_together_and_the_draft_is_gone(tmp_path):
    with drafted(tmp_path / "out", last="b") as draft:
        (draft / "b.txt").write_text("b")
        (draft / "sub").mkdir()
        (draft / "sub" / "c.txt").write_text("c")
        assert list((tmp_path / "out").iterdir()) == [draft]
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["b.txt", "c.txt", "sub"]


def test_after_an_error_an_old_folder_is_as_it_was_and_a_new_one_is_gone(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.txt").write_text("before")

    def interrupted(folder):
        with drafted(folder, last="b") as draft:
            (draft / "a.txt").write_text("after")
            raise KeyboardInterrupt

    for name in ("old", "new"):
        with pytest.raises(KeyboardInterrupt):
            interrupted(tmp_path / name)
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["a.txt"]
    assert (tmp_path / "old" / "a.txt").read_text() == "before"
    assert not (tmp_path / "new").exists()


@pytest.fixture
def full_disk():
    """No file may grow beyond 4 KB: writing then fails as on a full disk, with an OSError from the system."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_earlier_save_whole(tmp_path, request):
    save_sparse(Toy(seed=0), tmp_path)
    before = (tmp_path / WEIGHTS_FILE).read_bytes()
    request.getfixturevalue("full_disk")
    with pytest.raises(OSError, match="File too large"):
        save_sparse(make("bert"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {WEIGHTS_FILE}
    assert (tmp_path / WEIGHTS_FILE).read_bytes() == before
    assert_identical(load_sparse(tmp_path, model=Toy(seed=1)).state_dict(), Toy(seed=0).state_dict())


def test_a_full_disk_leaves_no_new_folder(tmp_path, full_disk):
    with pytest.raises(OSError, match="File too large"):
        save_sparse(make("bert"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
