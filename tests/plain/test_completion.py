"""Words that the shell completes, asked for as its script asks for them; help, versions, mistyped commands."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from qverify.cli.main import COMMANDS, main


def completed(typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is offered for the last word of the line."""
    monkeypatch.setenv("_QVERIFY_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [word for kind, _, word in (line.partition(",") for line in lines) if kind == "plain"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("qverify tri", ["triage"]),
        ("qverify --boa", ["--board"]),
        ("qverify -m x.onnx --boa", ["--board"]),
        ("qverify triage --stag", ["--stages"]),
        ("qverify -b qemu-user:a", ["qemu-user:aarch64", "qemu-user:armv7"]),
        ("qverify inputs dif", ["diff"]),
        ("qverify completion f", ["fish"]),
    ],
)
def test_words_of_the_command_line(typed, offered, monkeypatch, capsys) -> None:
    assert completed(typed, monkeypatch, capsys) == offered


def test_every_command_is_offered(monkeypatch, capsys) -> None:
    assert sorted(completed("qverify ", monkeypatch, capsys)) == sorted(COMMANDS)


def test_models_and_folders_are_offered_after_a_comma_too(tmp_path, monkeypatch, capsys) -> None:
    for name in ("net.onnx", "net.bin", "net.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "nets").mkdir()
    start = f"{tmp_path}/ne"
    found = [f"{tmp_path}/net.bin", f"{tmp_path}/net.onnx", f"{tmp_path}/nets/"]
    assert completed(f"qverify -m {start}", monkeypatch, capsys) == found
    assert completed(f"qverify infer --model a.onnx,{start}", monkeypatch, capsys) == [f"a.onnx,{f}" for f in found]
    assert completed(f"qverify -m {tmp_path}/nowhere/x", monkeypatch, capsys) == []


def test_boards_of_the_inventory_are_offered(tmp_path, monkeypatch, capsys) -> None:
    inventory = tmp_path / "boards.toml"
    inventory.write_text('[boards.bench-7]\nuri = "local"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    assert completed("qverify -b ben", monkeypatch, capsys) == ["bench-7"]
    inventory.write_text("[boards\n")
    assert completed("qverify -b loc", monkeypatch, capsys) == ["local"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell, capsys) -> None:
    assert main(["completion", shell]) == 0
    assert f"_QVERIFY_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_bash_reads_its_script(tmp_path, capsys) -> None:
    assert main(["completion", "bash"]) == 0
    script = Path(tmp_path / "completion.sh")
    script.write_text(capsys.readouterr().out)
    asked = subprocess.run(
        ["bash", "-c", f". {script} && complete -p qverify"], capture_output=True, text=True, timeout=20, check=True
    )
    assert asked.stdout.split()[-1] == "qverify"


def test_an_unknown_request_of_a_shell_is_a_mistake(monkeypatch) -> None:
    monkeypatch.setenv("_QVERIFY_COMPLETE", "tcsh_complete")
    assert main([]) == 2


def test_a_request_of_a_shell_never_takes_the_place_of_a_verdict(digits, monkeypatch, capsys) -> None:
    for name, value in (("_QVERIFY_COMPLETE", "bash_complete"), ("COMP_WORDS", "qverify "), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    wrong = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", wrong]) == 1
    assert "Sim and Arm result Strict check FAILED" in capsys.readouterr().out
    monkeypatch.delenv("COMP_WORDS")
    assert main([]) == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trigae", "did you mean 'triage'? Commands: verify"),
        ("xyzzy", "unknown command 'xyzzy'; commands: verify"),
        ("local", "for a board: -b local"),
        ("qemu-user:aarch64", "for a board: -b qemu-user:aarch64"),
        ("net.onnx", "for the main job: qverify -m net.onnx -b BOARD"),
    ],
)
def test_what_is_no_command_gets_the_next_step(word, said, capsys) -> None:
    assert main([word]) == 2
    assert said in capsys.readouterr().err


def test_help_of_a_command_has_two_spellings(capsys) -> None:
    assert main(["help", "inspect"]) == main(["inspect", "--help"]) == 0
    first, _, second = (
        capsys.readouterr().out.partition("Usage: qverify inspect")[2].partition("Usage: qverify inspect")
    )
    assert first == second != ""
    assert main(["help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


def test_versions_of_the_libraries_are_told(capsys) -> None:
    assert main(["--version"]) == 0
    told = capsys.readouterr().out
    assert f"onnxruntime {version('onnxruntime')}" in told and f"numpy {version('numpy')}" in told


def test_an_option_without_its_value_is_said(digits, capsys) -> None:
    model = str(digits / "digits_quant.onnx")
    assert main(["-m", model, "-b", "-i", "case.npy"]) == 2
    assert "-b is followed by -i: an unset shell variable?" in capsys.readouterr().err
    assert main(["-m", model, "-b", "faulty:local?fault=bitflp@x"]) == 2
    assert "got 'bitflp@x' (did you mean bitflip?)" in capsys.readouterr().err
