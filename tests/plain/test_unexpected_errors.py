"""Errors that no command expects are one line and exit status 2, never 1, which would look like a mismatch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from qverify import extras
from qverify.cli import command_modules
from qverify.cli import main as program
from qverify.cli.main import main
from qverify.onnx_model import canary


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every command ends in this error."""

    def run(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(program, "load_command", lambda name: SimpleNamespace(main=run))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("two\nlines"), "internal error: RuntimeError: two lines. QVERIFY_DEBUG=1 shows where"),
        (AssertionError(), "internal error: AssertionError:. QVERIFY_DEBUG=1 shows where"),
        (MemoryError(), "out of memory on this host"),
        (OSError(28, "No space left on device", "/x/y"), "/x/y: No space left on device"),
        (OSError("odd"), "odd"),
        (
            ModuleNotFoundError("No module named 'numpy'", name="numpy"),
            "internal error: ModuleNotFoundError: No module",
        ),
    ],
)
def test_one_line_and_status_2(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(error, monkeypatch)
    assert main(["doctor"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"qverify: {said}") and line.count("\n") == 1


def test_the_place_of_an_internal_error_is_shown_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(RuntimeError("here"), monkeypatch)
    monkeypatch.setenv("QVERIFY_DEBUG", "1")
    with pytest.raises(RuntimeError, match="here"):
        main(["doctor"])


@pytest.mark.parametrize(
    ("command", "library", "said"),
    [("serve", "fastapi", "qverify serve needs "), ("suite", "sqlalchemy.orm", "qverify suite needs ")],
)
def test_a_command_of_the_farm_without_its_library_names_the_extra(
    command: str, library: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(ModuleNotFoundError(f"No module named {library!r}", name=library), monkeypatch)
    assert main([command]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"qverify: {said}") and "pip install 'qverify[" in line and line.count("\n") == 1


def test_no_extra_is_named_for_another_library_or_command() -> None:
    lacking = ModuleNotFoundError(name="fastapi")
    assert command_modules.missing_extra("doctor", lacking) is None
    assert command_modules.missing_extra("serve", ModuleNotFoundError(name="json")) is None
    named = extras.missing_extra("--server", lacking)
    assert named is not None and str(named).startswith("--server needs ")


def test_a_library_that_the_system_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(ImportError("libstdc++.so.6: cannot open shared object file: No such file or directory"), monkeypatch)
    assert main(["doctor"]) == 2
    line = capsys.readouterr().err
    assert "cannot be loaded: libstdc++.so.6 is not on this machine; install it" in line and line.count("\n") == 1
    assert command_modules.missing_library(ImportError("cannot import name 'x' from 'y'")) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_no_error(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(error, monkeypatch)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "qverify: interrupted\n"


def test_kernels_are_checked_without_a_place_for_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is damaged, or cannot be written, is no result of its own."""
    wanted = canary.run_canaries(use_cache=False)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert canary.run_canaries() == wanted
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert canary.run_canaries() == wanted
    (cache,) = (tmp_path / "qverify").iterdir()
    whole = cache.read_text()
    for damaged in ("{", "[]", "3", "null", '{"engine": "x"}'):
        cache.write_text(damaged)
        assert canary.run_canaries() == wanted and cache.read_text() == whole
