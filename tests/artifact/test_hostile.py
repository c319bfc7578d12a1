"""A file that is cut, altered or made to deceive is refused with a ValueError, and nothing large is allocated first."""

import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mgpp.artifact.encoding as encoding
import mgpp.artifact.load as loading
from mgpp.artifact import load_sparse, save_sparse
from mgpp.artifact.encoding import bits_of
from mgpp.artifact.shards import INDEX_FILE, WEIGHTS_FILE
from mgpp.artifact.zstd import compress
from tests.artifact.forged import WEIGHT, Forged
from tests.artifact.models import make, zero_out
from tests.toy import Toy

zstandard = pytest.importorskip("zstandard")

HUGE = 1 << 40
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def toy() -> Toy:
    model = Toy()
    model.register_buffer("flags", torch.tensor([True, False]))
    zero_out(model)
    return model


@pytest.fixture(scope="module", params=["fp32", "int8", "zstd"])
def original(request, tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp(request.param)
    save_sparse(toy(), folder, values="int8" if request.param == "int8" else "fp32", zstd=request.param == "zstd")
    return (folder / WEIGHTS_FILE).read_bytes()


@pytest.fixture(scope="module")
def exact(tmp_path_factory) -> bytes:
    save_sparse(toy(), tmp_path_factory.mktemp("exact"))
    return (next(tmp_path_factory.getbasetemp().glob("exact*")) / WEIGHTS_FILE).read_bytes()


def load(folder: Path, data: bytes) -> dict[str, torch.Tensor]:
    (folder / WEIGHTS_FILE).write_bytes(data)
    return load_sparse(folder, model=toy()).state_dict()


def refusal(folder: Path, data: bytes) -> str:
    with pytest.raises(ValueError) as told:  # noqa: PT011  the message is the caller's to check
        load(folder, data)
    assert "\n" not in str(told.value)
    return str(told.value)


# Damage


@few
@given(data=st.data())
def test_a_file_that_ends_early_or_late_is_refused(original, data, tmp_path):
    cut = data.draw(st.integers(0, len(original) - 1))
    refusal(tmp_path, original[:cut])
    refusal(tmp_path, original + bytes(data.draw(st.integers(1, 9))))


@few
@given(seed=st.integers(0, 2**32))
def test_an_altered_byte_is_refused_or_changes_nothing(original, seed, tmp_path):
    draw = random.Random(seed)
    altered = bytearray(original)
    altered[draw.randrange(len(altered))] ^= draw.randrange(1, 256)
    try:
        found = load(tmp_path, bytes(altered))
    except ValueError:
        return
    expected = load(tmp_path, original)  # a blank of the header's padding became another blank
    assert all(torch.equal(bits_of(found[name]), bits_of(expected[name])) for name in expected)


@few
@given(noise=st.binary(max_size=400))
def test_noise_is_refused(noise, tmp_path):
    refusal(tmp_path, noise)
    refusal(tmp_path, struct.pack("<Q", len(noise)) + noise)


plain = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
any_json = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner), max_leaves=6
)


@few
@given(header=any_json)
def test_a_header_of_any_json_is_refused(header, tmp_path):
    text = json.dumps(header).encode()
    refusal(tmp_path, struct.pack("<Q", len(text)) + text)


# Lies, with every checksum made to match


def test_a_file_taken_apart_and_put_together_loads(original, tmp_path):
    expected = load(tmp_path, original)
    found = load(tmp_path, Forged(original).write())
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def _set(**fields: Any) -> Callable[[Forged], Any]:
    return lambda forged: forged.record.update(fields)


def _kept(change: int) -> Callable[[Forged], None]:
    def lie(forged: Forged) -> None:
        forged.record["kept"] += change
        forged.replace("values", bytes(4 * forged.record["kept"]))
        forged.header[f"{WEIGHT}#values"]["shape"] = [forged.record["kept"]]

    return lie


def _shape(shape: list[Any]) -> Callable[[Forged], None]:
    """A shape with mask and values that go with it."""

    def lie(forged: Forged) -> None:
        count = int(np.prod(shape))
        forged.record.update(shape=shape, kept=0)
        forged.replace("mask", bytes(-(-count // 8)))
        forged.replace("values", b"")
        forged.header[f"{WEIGHT}#mask"]["shape"] = [-(-count // 8)]
        forged.header[f"{WEIGHT}#values"]["shape"] = [0]

    return lie


def _rename(forged: Forged) -> None:
    forged.layout["tensors"]["elsewhere.weight"] = forged.layout["tensors"].pop(WEIGHT)
    for part in ("mask", "values"):
        forged.header[f"elsewhere.weight#{part}"] = forged.header.pop(f"{WEIGHT}#{part}")
        forged.data[f"elsewhere.weight#{part}"] = forged.data.pop(f"{WEIGHT}#{part}")


def _sign_of_a_kept_number(forged: Forged) -> None:
    forged.header[f"{WEIGHT}#negative"] = {"dtype": "U8", "shape": [12]}
    forged.replace("negative", bytes([255] * 12))


def _truth_of_two(forged: Forged) -> None:
    forged.data["flags"] = b"\x02\x00"
    forged.layout["tensors"]["flags"]["parts"]["values"]["crc32"] = zlib.crc32(b"\x02\x00")


def _integers(forged: Forged) -> None:
    record = forged.layout["tensors"]["head.bias"]
    record.update(dtype="I32", stored="I32")
    forged.header["head.bias"]["dtype"] = "I32"


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (_kept(1), "its mask keeps"),
        (_kept(-1), "its mask keeps"),
        (_set(kept=97), "no valid count"),
        (_set(kept=-1), "no valid count"),
        (_set(kept=True), "no valid count"),
        (_set(kept=None), "no valid count"),
        (_set(kept=HUGE), "no valid count"),
        (_set(shape=[8, 12]), "its config says [12, 8]"),
        (_shape([8, 12]), "its config says [12, 8]"),
        (_shape([12, 16]), "its config says [12, 8]"),
        (_set(shape=[HUGE, HUGE]), "not as its layout says"),
        (_set(shape=[-12, -8]), "no valid shape"),
        (_set(shape=[12.0, 8]), "no valid shape"),
        (_set(shape="12,8"), "no valid shape"),
        (_set(shape=[1] * 100_000), "no valid shape"),
        (_set(dtype="F33"), "no valid type"),
        (_set(dtype=["F32"]), "no valid type"),
        (_set(dtype="I32"), "no valid mask"),
        (_set(stored="I8"), "no valid way of being stored"),
        (_set(stored="BF16"), "not as its layout says"),
        (_set(stored="F64"), "no valid way of being stored"),
        (_set(parts={}), "no valid parts"),
        (_set(parts=[]), "no valid parts"),
        (_set(parts={"pickle": {"crc32": 0, "zstd": False}}), "no valid parts"),
        (_set(parts={"mask": {"crc32": 0}, "values": {"crc32": 0}}), "no valid parts"),
        (lambda forged: forged.replace("mask", bytes(12)), "its mask keeps 0 numbers"),
        (lambda forged: forged.replace("mask", b"garbage", zstd=True), "its zstd frame is broken"),
        (_sign_of_a_kept_number, "kept and a zero at the same time"),
        (_truth_of_two, "neither 0 nor 1"),
        (_integers, "is of type I32 and not torch.float32"),
        (_rename, "missing blocks.0.0.weight, not expected elsewhere.weight"),
        (lambda forged: forged.layout.update(tied={"x": "head.bias"}), "not expected x"),
        (lambda forged: forged.layout.update(tied={"x": "y"}), "which cannot be"),
        (lambda forged: forged.layout.update(tied={"x": ["head.bias"]}), "which cannot be"),
        (lambda forged: forged.layout.update(tied={WEIGHT: "head.bias"}), "which cannot be"),
        (lambda forged: forged.layout.update(tied=3), "lists no tensors"),
        (lambda forged: forged.layout.update(tensors=3), "lists no tensors"),
        (lambda forged: forged.layout["tensors"].pop(WEIGHT), "not in both"),
        (lambda forged: forged.layout["tensors"].update({WEIGHT: 3}), "no valid record"),
        (lambda forged: forged.metadata.update(version="2"), "this mgpp reads 1: upgrade mgpp"),
        (lambda forged: forged.metadata.update(format="pt"), "no sparse file of mgpp's"),
        (lambda forged: forged.metadata.update(format=3), "metadata are not strings"),
    ],
)
def test_a_lie_in_the_layout_is_refused(lie, told, exact, tmp_path):
    forged = Forged(exact)
    lie(forged)
    assert told in refusal(tmp_path, forged.write())


def test_bits_after_the_last_number_are_refused(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    torch.nn.init.zeros_(model[0].weight)
    save_sparse(model, tmp_path)
    forged = Forged((tmp_path / WEIGHTS_FILE).read_bytes())
    forged.replace("mask", b"\x00\x80", name="0.weight")
    (tmp_path / WEIGHTS_FILE).write_bytes(forged.write())
    with pytest.raises(ValueError, match="its mask goes on after its last number"):
        load_sparse(tmp_path, model=model)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0])
def test_scales_that_are_none_are_refused(scale, tmp_path):
    save_sparse(toy(), tmp_path, values="int8")
    forged = Forged((tmp_path / WEIGHTS_FILE).read_bytes())
    forged.replace("scale", np.full(12, scale, dtype=np.float32).tobytes())
    assert "scales are not all finite" in refusal(tmp_path, forged.write())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("data_offsets", [0, HUGE]),
        ("data_offsets", [HUGE, HUGE + 384]),
        ("data_offsets", [8, 0]),
        ("data_offsets", [0, 1, 2]),
        ("data_offsets", 3),
        ("shape", [HUGE, HUGE]),
        ("shape", [0]),
        ("dtype", "F128"),
        ("dtype", None),
    ],
)
def test_an_entry_that_does_not_lie_in_the_file_is_refused(field, value, exact, tmp_path):
    (length,) = struct.unpack("<Q", exact[:8])
    header = json.loads(exact[8 : 8 + length])
    header["head.weight"][field] = value
    text = json.dumps(header).encode()
    refusal(tmp_path, struct.pack("<Q", len(text)) + text + exact[8 + length :])


def test_two_tensors_in_the_same_place_are_refused(exact, tmp_path):
    (length,) = struct.unpack("<Q", exact[:8])
    header = json.loads(exact[8 : 8 + length])
    header[f"{WEIGHT}#mask"]["data_offsets"] = [0, 12]
    text = json.dumps(header).encode()
    assert "begins at byte" in refusal(tmp_path, struct.pack("<Q", len(text)) + text + exact[8 + length :])


def test_a_header_longer_than_the_file_is_not_read(exact, tmp_path):
    assert "its header claims" in refusal(tmp_path, struct.pack("<Q", 1 << 62) + exact[8:])


def test_a_header_nested_beyond_reason_is_refused(tmp_path):
    text = b'{"a":' * 200_000
    assert "no JSON" in refusal(tmp_path, struct.pack("<Q", len(text)) + text)


def test_a_header_that_says_one_thing_twice_is_refused(tmp_path):
    text = b'{"a": 1, "a": 2}'
    assert "a key comes twice" in refusal(tmp_path, struct.pack("<Q", len(text)) + text)


# What is allocated


@pytest.fixture
def largest(monkeypatch) -> list[int]:
    """The sizes of all tensors that loading allocates."""
    asked = [0]

    def counting(shape, **kwargs):
        asked.append(int(np.prod(shape, dtype=object)))
        assert asked[-1] < 1 << 20, "a tensor of that size was asked for"
        return torch.empty(shape, **kwargs)

    for module in (loading, encoding):
        monkeypatch.setattr(module, "torch", SimpleNamespace(empty=counting))
    return asked


def test_zeros_that_unpack_to_terabytes_are_refused_before_anything_is_allocated(exact, largest, tmp_path):
    forged = Forged(exact)
    forged.record.update(shape=[1 << 22, 1 << 20], kept=0)
    forged.replace("mask", compress(np.zeros(1 << 20, dtype=np.uint8), width=1), zstd=True)
    forged.replace("values", b"")
    forged.header[f"{WEIGHT}#values"]["shape"] = [0]
    told = refusal(tmp_path, forged.write())
    assert "would take 17,592.2 GB" in told
    assert "or do not trust the file" in told
    assert max(largest) == 0


def test_a_model_that_does_not_fit_its_config_is_refused_before_anything_is_allocated(exact, largest, tmp_path):
    forged = Forged(exact)
    forged.record.update(shape=[1 << 12, 1 << 12], kept=0)
    forged.replace("mask", compress(np.zeros(1 << 21, dtype=np.uint8), width=1), zstd=True)
    forged.replace("values", b"")
    forged.header[f"{WEIGHT}#values"]["shape"] = [0]
    assert "its config says [12, 8]" in refusal(tmp_path, forged.write())
    assert max(largest) == 0


def test_a_mask_that_unpacks_to_more_than_its_shape_is_refused(exact, largest, tmp_path):
    forged = Forged(exact)
    forged.replace("mask", compress(np.zeros(1 << 26, dtype=np.uint8), width=1), zstd=True)
    assert "holds more than the 12 bytes declared" in refusal(tmp_path, forged.write())
    assert max(largest) < 1000


# The files around it


def test_a_config_that_makes_no_model_is_refused(tmp_path):
    save_sparse(make("bert"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change in ({"num_attention_heads": 0}, {"hidden_size": 32}, {"hidden_size": "x"}, {"model_type": "no-such"}):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=r"config|export it again"):
            load_sparse(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"the config in .* cannot be read"):
        load_sparse(tmp_path)


@pytest.fixture
def sharded(tmp_path) -> Path:
    save_sparse(toy(), tmp_path, shard_size=400)
    assert len(list(tmp_path.glob("model.sparse-*"))) > 2
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "../elsewhere.safetensors",
        "/etc/passwd",
        "sub/model.sparse-00001-of-00004.safetensors",
        "",
        "model.sparse-00001-of-00009.safetensors",
    ],
)
def test_an_index_that_points_elsewhere_is_refused(sharded, name):
    index = json.loads((sharded / INDEX_FILE).read_text())
    index["shards"] = {name: "0", **dict(list(index["shards"].items())[1:])}
    (sharded / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(ValueError, match="its files are not the shards of one model"):
        load_sparse(sharded, model=toy())


def test_a_shard_that_is_missing_or_of_another_save_is_refused(sharded, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    changed = toy()
    changed.head.bias.data += 1
    save_sparse(changed, other, shard_size=400)
    last = sorted(sharded.glob("model.sparse-*"))[-1]
    last.write_bytes((other / last.name).read_bytes())
    with pytest.raises(ValueError, match="it belongs to another save"):
        load_sparse(sharded, model=toy())
    last.unlink()
    with pytest.raises(ValueError, match="it is missing"):
        load_sparse(sharded, model=toy())


@pytest.mark.parametrize(
    "change", [{"weight_map": {}}, {"weight_map": 3}, {"shards": {}}, {"shards": []}, {"format": "x"}, {"version": 2}]
)
def test_an_index_that_lies_is_refused(sharded, change):
    index = json.loads((sharded / INDEX_FILE).read_text())
    (sharded / INDEX_FILE).write_text(json.dumps(index | change))
    with pytest.raises(ValueError, match=r"index|shards|weights|version"):
        load_sparse(sharded, model=toy())


def test_a_file_and_an_index_side_by_side_are_refused(sharded, exact):
    (sharded / WEIGHTS_FILE).write_bytes(exact)
    with pytest.raises(ValueError, match="holds both"):
        load_sparse(sharded, model=toy())


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path):
    (tmp_path / WEIGHTS_FILE).mkdir()
    with pytest.raises(ValueError, match="no regular file"):
        load_sparse(tmp_path, model=toy())
