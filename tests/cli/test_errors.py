"""However a command ends, what it says is one line that a person can read."""

import pytest

from mgpp.cli import main
from mgpp.cli import presets as command
from mgpp.cli.errors import LONGEST, exit_code_of


def said(error: BaseException, capsys: pytest.CaptureFixture) -> str:
    assert exit_code_of(error) == 2
    err = capsys.readouterr().err
    assert err.endswith("\n")
    return err[:-1]


def test_what_a_terminal_would_obey_is_not_printed(capsys):
    line = said(ValueError("label='\x1b[2J\x07' is\nno \udcff number: drop it"), capsys)
    assert line.isprintable()
    assert line == "mgpp: label='�[2J�' is no � number: drop it"


@pytest.mark.parametrize("given", [["--sparsity", "0,9"], ["--max-steps", "3.5"]])
def test_what_is_no_number_is_named(given, capsys):
    assert main(["prune", "model", "data", "-o", "out", *given]) == 2
    line = capsys.readouterr().err
    assert given[0] in line
    assert repr(given[1]) in line


def test_a_long_line_keeps_what_is_wrong_and_what_to_do(capsys):
    line = said(ValueError(f"text={'x' * 1_000_000} is no text: name another column (--text)"), capsys)
    assert len(line) < LONGEST + 20
    assert line.startswith("mgpp: text=xxx")
    assert line.endswith("is no text: name another column (--text)")


@pytest.mark.parametrize("kind", [FileExistsError, NotADirectoryError])
def test_a_file_in_the_way_is_named_with_the_cure(kind, capsys):
    line = said(kind(17, "File exists", "afile"), capsys)
    assert line.strip() == "mgpp: afile: File exists: a file lies where a folder is needed, choose another place"


def test_an_interrupted_command_says_so(monkeypatch, capsys):
    def interrupt() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "names", interrupt)
    assert main(["presets"]) == 130
    assert capsys.readouterr().err == "mgpp: interrupted: give the same command once more\n"


def test_a_file_whose_name_is_no_text_is_written_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["presets", "copy", "bert-base/mnli", "\udcff.toml"]) == 0
    assert (tmp_path / "\udcff.toml").is_file()


def test_the_colours_of_another_tool_are_left_out(capsys):
    exit_code_of(ValueError("\x1b[96mstep 3\x1b[0m failed"))
    assert capsys.readouterr().err == "mgpp: step 3 failed\n"
