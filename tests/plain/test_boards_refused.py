"""Boards that no address can name, or that this machine cannot reach, are refused with what is wanted."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents import binaries
from qverify_agents.address import Address
from qverify_agents.boards import qemu_user
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.resolve_address import check_address, find_option, find_runtime


@pytest.mark.parametrize(("machine", "known"), [("AMD64", "x86_64"), ("arm64", "aarch64"), ("armhf", "armv7")])
def test_machines_have_the_runtimes_names(machine: str, known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert binaries.host_architecture() == known


def test_a_machine_without_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(BoardUnreachable, match="this machine is vax; the runtime is built for aarch64, armv7, riscv64"):
        binaries.host_architecture()


def test_a_missing_runtime_is_never_a_verdict(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(tmp_path))
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "local"]) == 3
    shown = "".join(capsys.readouterr())
    assert "is missing); build it with python board_runtime/build.py in a clone" in shown
    assert "Sim and Arm result Strict check INCONCLUSIVE" in shown


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("finals:" * 5 + "local", "boards wrapped more than 4 deep; name the board with fewer wrappers"),
        ("local?falt=die", "unknown option 'falt'; known here: "),
        ("qemu-user:vax", "-b qemu-user:vax: known architectures are "),
    ],
)
def test_addresses_that_no_board_can_have(uri: str, said: str) -> None:
    with pytest.raises(BadAddress) as refusal:
        check_address(uri)
    assert said in str(refusal.value)


def test_an_address_as_deep_as_allowed_is_taken() -> None:
    check_address("finals:" * 3 + "local")


def test_the_emulator_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_user, "find_emulator", lambda architecture: None)
    with pytest.raises(BoardUnreachable, match="no qemu-aarch64 on this machine; install qemu-user-static"):
        qemu_user.plainer(Address("qemu-user", "arm64"))


def test_the_python_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu_user, "find_emulator", lambda architecture: "/usr/bin/qemu")
    monkeypatch.setattr(qemu_user, "find_python_roots", lambda: ["/old", "/new"])
    monkeypatch.setattr(qemu_user, "python_command", lambda program, root: [program, f"{root}/python"])
    found = qemu_user.plainer(Address("qemu-user", "aarch64", {"runtime": "onnxruntime"}))
    assert found.scheme == "exec" and found.argv[:3] == ("/usr/bin/qemu", "/new/python", "-I")
    with pytest.raises(BoardUnreachable, match="-b qemu-user:armv7: no Python with the runtime's library for it here"):
        qemu_user.plainer(Address("qemu-user", "armv7", {"runtime": "onnxruntime"}))


def test_boards_of_two_runtimes_under_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = tmp_path / "boards.toml"
    boards.write_text(
        '[boards.a]\nuri = "local?runtime=litert"\ntags = { soc = "x" }\n[boards.b]\nuri = "local"\ntags = { soc = "x" }\n'
    )
    monkeypatch.setenv("QVERIFY_BOARDS", str(boards))
    assert (find_runtime("a", {}), find_runtime("b", {}), find_runtime("faulty:a", {})) == ("litert", "", "litert")
    with pytest.raises(BadAddress, match="-b soc=x: its boards run litert and qvrt; name one board"):
        find_runtime("soc=x", {})
    assert find_option("faulty:a?fault=die", {}, "runtime") == "litert"
    assert find_option("a", {"runtime": "onnxruntime"}, "runtime") == "onnxruntime"
    assert find_option("b", {}, "runtime") == ""
