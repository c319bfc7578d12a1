"""Building the kernel: once for a machine, and never a crash where it cannot be done."""

import stat
from pathlib import Path

import pytest
import torch

from mgpp import compiler
from mgpp.runtime import NoKernel, active, build, paths


def compiler_that(tmp_path: Path, script: str) -> str:
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_a_compiler_torchs_csr_takes_over_and_says_why(fresh, monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    path = active()
    assert path.name == "csr"
    assert "no C++ compiler" in str(path)
    assert "install g++" in str(path)
    with pytest.raises(NoKernel, match="no C\\+\\+ compiler"):
        active("compiled")


def test_who_wants_no_compiled_kernel_says_so(fresh, monkeypatch):
    monkeypatch.setenv("MGPP_COMPILE", "0")
    assert active().name == "csr"
    assert "MGPP_COMPILE=0" in str(active())


def test_without_either_everything_stays_dense(fresh, monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)

    def without_mkl(packed):
        raise RuntimeError("built without MKL")

    monkeypatch.setattr(paths, "csr_product", without_mkl)
    path = active()
    assert path.name == "dense"
    assert "built without MKL" in str(path)


def test_a_compiler_that_fails_is_quoted(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", compiler_that(tmp_path, 'test "$1" = --version || { echo no such flag >&2; exit 1; }'))
    with pytest.raises(NoKernel, match=r"could not build the kernel: .*no such flag"):
        build.build("native")
    assert active().name == "csr"


def test_a_library_that_cannot_be_loaded_is_no_kernel(fresh, monkeypatch, tmp_path):
    writes = 'for last; do :; done; test "$1" = --version || echo nonsense > "$last"'
    monkeypatch.setenv("CXX", compiler_that(tmp_path, writes))
    with pytest.raises(NoKernel, match="could not build the kernel"):
        build.build("native")


def test_a_library_without_our_functions_is_no_kernel(compiled, fresh, monkeypatch, tmp_path):
    real = next(path for name in compiler.COMPILERS if (path := compiler.shutil.which(name)))
    as_asked = f'test "$1" = --version && exec {real} "$@"'
    empty = f'for last; do :; done; echo | {real} -shared -fPIC -x c++ - -o "$last"'
    monkeypatch.setenv("CXX", compiler_that(tmp_path, f"{as_asked}; {empty}"))
    with pytest.raises(NoKernel, match=r"could not build the kernel: .*undefined symbol"):
        build.build("native")
    assert active().name == "csr"


def test_a_compiler_that_hangs_is_waited_for_once(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "SECONDS", 1)
    asked = tmp_path / "asked"
    script = f'test "$1" = --version && exit; echo >> {asked}; exec sleep 30'
    monkeypatch.setenv("CXX", compiler_that(tmp_path, script))
    with pytest.raises(NoKernel, match="no answer in 1 seconds"):
        build.build("native")
    assert asked.read_text() == "\n"


def test_a_compiler_may_speak_any_encoding(fresh, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", compiler_that(tmp_path, r"printf '\377\376' >&2; exit 1"))
    with pytest.raises(NoKernel):
        build.build("native")


@pytest.mark.parametrize("damage", [lambda whole: whole[:4096], lambda whole: b"", lambda whole: bytes(len(whole))])
def test_a_damaged_library_is_built_anew(compiled, fresh, monkeypatch, tmp_path, damage):
    monkeypatch.setenv("MGPP_CACHE", str(tmp_path))
    compiler._cache.cache_clear()
    build.build("native")
    for kept in list(tmp_path.glob("*.so")):  # Clang's has one more, which does not load without its own OpenMP
        whole = kept.read_bytes()
        kept.unlink()  # this process has it open
        kept.write_bytes(damage(whole))
    assert build.build("native").vectors == compiled.vectors
    again = list(tmp_path.glob("*.so"))
    assert again
    assert all(map(compiler._is_whole, again))


def test_a_kernel_that_computes_wrong_numbers_is_refused(compiled, monkeypatch):
    monkeypatch.setattr(build.Bound, "__call__", lambda self, x, bias: torch.zeros(len(x), self._rows))
    with pytest.raises(NoKernel, match="wrong numbers"):
        build.build("native")


def test_a_kernel_is_built_once(compiled, monkeypatch):
    def only_asked_for_its_version(*command):
        assert command[1:] == ("--version",), "compiled again"
        return original(*command)

    original = compiler._output
    monkeypatch.setattr(compiler, "_output", only_asked_for_its_version)
    assert build.build("native").vectors == compiled.vectors


def test_where_the_cache_cannot_be_written_the_process_has_its_own(fresh, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("MGPP_CACHE", str(tmp_path / "file" / "mgpp"))
    folder = compiler._cache()
    assert folder.is_dir()
    assert tmp_path not in folder.parents


def test_an_unknown_path_is_named():
    with pytest.raises(ValueError, match="path='numba' is not one of auto, compiled, csr"):
        active("numba")


def test_the_active_path_says_what_it_computes_with(compiled):
    assert active().name == "compiled"
    assert compiled.vectors in repr(active())
