"""Byte planes in a zstd frame: what goes in comes out, and no frame gets more memory than it is given."""

import builtins
import tracemalloc
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpp.artifact.zstd import compress, decompress_into, require_zstd

zstandard = pytest.importorskip("zstandard")


@given(st.binary(max_size=3000), st.sampled_from([1, 2, 4, 8]))
def test_what_is_compressed_comes_back(data, width):
    data = np.frombuffer(data[: len(data) // width * width], dtype=np.uint8)
    out = np.empty_like(data)
    decompress_into(out, BytesIO(compress(data, width=width)), width=width)
    assert np.array_equal(out, data)


def test_floats_compress_better_as_planes():
    noise = np.random.default_rng(0).standard_normal(400_000).astype(np.float32).view(np.uint8)
    assert len(compress(noise, width=4)) < 0.93 * len(compress(noise, width=1))


@pytest.mark.parametrize("size", [0, 9, 11, 1000])
def test_a_frame_that_holds_another_number_of_bytes_is_refused(size):
    frame = compress(np.zeros(10, dtype=np.uint8), width=1)
    with pytest.raises(ValueError, match=r"its zstd frame holds (more|fewer)"):
        decompress_into(np.empty(size, dtype=np.uint8), BytesIO(frame), width=1)


def test_a_bomb_takes_no_more_memory_than_its_place():
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    frame = b"".join(packer.compress(bytes(1 << 20)) for _ in range(512)) + packer.flush()
    assert len(frame) < 100_000  # of 512 MiB
    tracemalloc.start()
    with pytest.raises(ValueError, match="holds more than the 64 bytes declared"):
        decompress_into(np.empty(64, dtype=np.uint8), BytesIO(frame), width=4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_frame_that_claims_terabytes_is_refused():
    frame = zstandard.ZstdCompressor().compress(bytes(100))
    parameters = zstandard.get_frame_parameters(frame)
    assert parameters.content_size == 100
    forged = frame[:4] + bytes([0b1110_0000]) + (1 << 42).to_bytes(8, "little") + frame[6:]
    assert zstandard.get_frame_parameters(forged).content_size == 1 << 42
    with pytest.raises(ValueError, match="zstd frame"):
        decompress_into(np.empty(100, dtype=np.uint8), BytesIO(forged), width=1)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    with pytest.raises(ValueError, match="zstd frame"):
        decompress_into(np.empty(100, dtype=np.uint8), BytesIO(noise), width=4)


def test_without_the_package_the_error_names_it(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'mgpp\[zstd\]'"):
        require_zstd()
