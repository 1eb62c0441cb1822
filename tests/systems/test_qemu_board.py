"""A whole emulated board: real kernel, dropbear, console; booted, restored, lost, full; reached by ssh and by its console."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.connect import connect, open_board_shell
from qverify_agents.deadline import Deadline
from qverify_agents.emulation import machine, run_folders
from qverify_agents.emulation.image import Image, ensure_image
from qverify_agents.emulation.packages import find_own_mirror
from qverify_agents.errors import BoardUnreachable, LinkError

from tests.conftest import with_images

MISSING = next((p for p in ("qemu-system-aarch64", "qemu-img", "apt-get") if shutil.which(p) is None), "")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no {MISSING} on this machine"),
    pytest.mark.skipif(not KEYRING.exists(), reason="no debian-archive-keyring on this machine"),
]


@pytest.fixture(autouse=True)
def own_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine but the test's own is in its cache folder: neither `boards up` nor a fixture of other tests has left one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(with_images(tmp_path / "cache")))


def run(digits: Path, *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), *words])


def processes() -> int:
    """Machines of this cache folder: others may run theirs beside us."""
    numbers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return sum(run_folders.runs_in(one, run_folders.root()) for one in numbers)


@pytest.mark.parametrize("link", ["ssh", "serial"])
def test_verified_on_a_board_of_its_own(link, digits, capsys):
    before = processes()
    assert run(digits, "-b", f"qemu:arm64?link={link}", "-r") == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out
    assert processes() == before


OTHERS = {"armhf": "qemu-system-arm", "riscv64": "qemu-system-riscv64", "s390x": "qemu-system-s390x"}


@pytest.mark.parametrize("architecture", OTHERS)
def test_verified_on_boards_of_other_architectures(architecture, digits, capsys):
    """s390x is big-endian: every value crosses the border turned round. riscv64 has another serial device than both ARM boards."""
    if shutil.which(OTHERS[architecture]) is None:
        pytest.skip(f"no {OTHERS[architecture]} on this machine")
    status, printed = run(digits, "-b", f"qemu:{architecture}", "-r"), capsys.readouterr().out
    if status == 3 and "Failed to fetch" in printed:
        pytest.skip(
            f"the Debian archive does not give the packages of {architecture} (it is not consistent, or not reached)"
        )
    assert status == 0 and "Sim and Arm result Strict check PASSED" in printed
    link = "serial" if architecture == "riscv64" else "ssh"
    spoilt = f"faulty:qemu:{architecture}?link={link}&fault=plus_one@relu2_QuantizeLinear_Output"
    assert run(digits, "-b", spoilt, "-r") == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out


def test_a_console_that_swallows_bytes_is_refused(digits, capsys):
    assert run(digits, "-b", "qemu:s390x?link=serial") == 2
    assert "0x0F" in capsys.readouterr().err


def test_a_bundle_run_by_hand_on_a_board(board, digits, tmp_path, capsys):
    """busybox and nothing else; the bundle lies where nothing may be executed."""
    assert main(["pack", "-m", str(digits / "digits_quant.onnx"), "-o", str(tmp_path / "b"), "--arch", "aarch64"]) == 0
    with open_board_shell("qemu:arm64", 60) as (run_there, _):
        for path in sorted((tmp_path / "b").rglob("*")):
            name = path.relative_to(tmp_path)
            if path.is_dir() or "host" in path.parts:
                continue
            copied = run_there(f"mkdir -p /noexec/{name.parent}; cat >/noexec/{name}", path.read_bytes())
            assert copied.status == 0
        done = run_there("sh /noexec/b/run.sh /tmp/dump")
        assert (done.status, done.err) == (0, b"")
        (tmp_path / "b" / "dump").mkdir()
        for name in run_there("ls /tmp/dump").out.decode().split():
            (tmp_path / "b" / "dump" / name).write_bytes(run_there(f"cat /tmp/dump/{name}").out)
        assert run_there("ls -A /tmp/dump").out.count(b".qvrt") == 0
    assert main(["replay", str(tmp_path / "b"), "-r"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out


def test_reset_and_back(board):
    assert main(["boards", "reset", "qemu:arm64"]) == 0
    connect("qemu:arm64", 30).close()


def test_down_leaves_a_board_to_whom_it_serves(board, capsys):
    with connect("qemu:arm64", 30) as agent:
        assert main(["boards", "down", "qemu:arm64"]) == 3
        assert "is in use by" in capsys.readouterr().err
        agent.ping()
        assert main(["boards", "down", "qemu:arm64", "--force"]) == 0
        with pytest.raises(LinkError):
            agent.ping()
            agent.ping()
    assert machine.running("arm64") is None


def test_up_used_and_down(digits, capsys):
    try:
        assert main(["boards", "up", "qemu:arm64"]) == 0
        assert main(["boards", "up", "qemu:arm64"]) == 0
        assert "is up already" in capsys.readouterr().out
        assert run(digits, "-b", "qemu:arm64") == 0
        assert run(digits, "-b", "faulty:qemu:arm64?fault=bitflip@relu2_QuantizeLinear_Output", "-r") == 1
        assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out
        assert main(["boards", "list"]) == 0
        assert "qemu:arm64" in capsys.readouterr().out
    finally:
        assert main(["boards", "down", "qemu:arm64"]) == 0
    assert machine.running("arm64") is None and not machine.state_file("arm64").exists()


def qverify(*words: str) -> subprocess.Popen[str]:
    """A qverify of its own process, its two outputs together."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "qverify.cli.main", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=environment
    )


def folders() -> list[str]:
    return sorted(p.name for p in run_folders.root().glob("arm64-*"))


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_ups_at_once_make_one_board():
    before = processes()
    try:
        both = [qverify("boards", "up", "qemu:arm64") for _ in range(2)]
        said = [one.communicate(timeout=120)[0] for one in both]
        assert processes() == before + 1
        assert sum("is up after" in text for text in said) == sum("is up already" in text for text in said) == 1
    finally:
        assert main(["boards", "down", "qemu:arm64"]) == 0
    assert processes() == before and folders() == []


def copied(built: Image, where: Path) -> Path:
    passing = shutil.ignore_patterns(
        "apt", "*.part", "initrd-*"
    )  # initrd-NAME-DIGEST: another test may replace it meanwhile
    return Path(shutil.copytree(built.folder, where / built.folder.name, ignore=passing))


def test_a_cache_folder_of_an_odd_and_long_name(digits, tmp_path, monkeypatch):
    built = ensure_image("arm64")
    odd = tmp_path / ("a, b=%d" + "x" * 70)
    (odd / "qverify" / "boards").mkdir(parents=True)
    copied(built, odd / "qverify" / "boards")
    monkeypatch.setenv("XDG_CACHE_HOME", str(odd))
    try:
        assert main(["boards", "up", "qemu:arm64"]) == 0
        with qverify("boards", "ssh", "qemu:arm64", "uname", "-m") as shell:
            assert "aarch64" in shell.communicate(timeout=60)[0]
        assert run(digits, "-b", "qemu:arm64", "-r") == 0
    finally:
        assert main(["boards", "down", "qemu:arm64"]) == 0
    assert processes() == 0 and folders() == []


def test_what_a_killed_up_leaves_is_ended_by_down(capsys):
    ensure_image("arm64")
    before = processes()
    with qverify("boards", "up", "qemu:arm64", "--cold") as host:
        wait_until(lambda: processes() > before)
        host.kill()
    assert main(["boards", "down", "qemu:arm64"]) == 0
    assert "remains of a killed qverify were removed" in capsys.readouterr().out
    assert processes() == before and folders() == []


@pytest.fixture
def board():
    made = machine.start(ensure_image("arm64"), Deadline(120), ends_with_us=True)
    machine.keep(made)
    try:
        yield made
    finally:
        machine.stop(made)


def test_a_snapshot_is_of_the_image_wherever_it_lies(tmp_path):
    built = ensure_image("arm64")
    machine.stop(machine.start(built, Deadline(120), ends_with_us=True))
    again = machine.start(replace(built, folder=copied(built, tmp_path)), Deadline(120), ends_with_us=True)
    machine.stop(again)
    assert again.warm


def test_a_snapshot_is_dropped_when_it_is_damaged_not_when_the_caller_would_not_wait(tmp_path):
    """The image is a copy, because other tests restore the user's."""
    built = ensure_image("arm64")
    built = replace(built, folder=copied(built, tmp_path))
    machine.stop(machine.start(built, Deadline(120), ends_with_us=True))
    snapshot = machine._snapshot_path(built)  # the folder has those of other command lines, too
    kept = snapshot.read_bytes()
    with pytest.raises(BoardUnreachable, match=r"did not boot in time: .*; give --timeout to wait longer"):
        machine.start(built, Deadline(0.1), ends_with_us=True)
    assert snapshot.read_bytes() == kept
    snapshot.write_bytes(kept[:4096])
    booted = machine.start(built, Deadline(120), ends_with_us=True)
    machine.stop(booted)
    assert not booted.warm and snapshot.stat().st_size > 4096
    restored = machine.start(built, Deadline(120), ends_with_us=True)
    machine.stop(restored)
    assert restored.warm


@pytest.mark.skipif(shutil.which(OTHERS["s390x"]) is None, reason=f"no {OTHERS['s390x']} on this machine")
def test_a_board_whose_network_no_snapshot_restores_always_boots(tmp_path):
    built = ensure_image("s390x")
    built = replace(built, folder=copied(built, tmp_path))
    snapshot = machine._snapshot_path(built)
    snapshot.write_bytes(b"of an earlier version")
    started = machine.start(built, Deadline(120), ends_with_us=True)
    machine.stop(started)
    assert not started.warm and snapshot.read_bytes() == b"of an earlier version"


def test_a_full_and_a_noexec_folder_are_said(board):
    with open_board_shell("qemu:arm64", 30) as (run_there, _):
        run_there("dd if=/dev/zero of=/small/fill bs=1024 count=1950 2>/dev/null")
        with pytest.raises(BoardUnreachable, match=r"cannot be written to /small/full/bin: .*No space left"):
            connect("qemu:arm64?cache=/small/full", 30)
        assert run_there("ls -A /small/full/bin").out == b""  # nothing half-written stays
    with connect("qemu:arm64?cache=/noexec/qv", 30) as agent:  # passed over for a folder that can execute
        agent.ping()


def test_a_board_that_loses_power_in_the_middle_is_inconclusive(board, digits):
    os.kill(board.pid, signal.SIGSTOP)  # frozen, as a board that hangs
    start = time.monotonic()
    try:
        with pytest.raises(LinkError):
            connect("qemu:arm64", 4)
    finally:
        os.kill(board.pid, signal.SIGCONT)
    assert time.monotonic() - start < 30
    agent = connect("qemu:arm64", 30)
    os.kill(board.pid, signal.SIGKILL)
    with pytest.raises(LinkError):
        agent.ping()
        agent.ping()
    agent.close()


def test_a_killed_host_leaves_no_machine(digits):
    before = processes()
    code = "import time; from qverify_agents.connect import connect; a = connect('qemu:arm64', 60); print('up', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        assert processes() == before + 1
        host.kill()
    wait_until(lambda: processes() == before, 5)
    (left,) = folders()
    machine.stop(machine.start(ensure_image("arm64"), Deadline(60), ends_with_us=True))
    assert folders() == [], left


def test_the_image_is_the_same_bytes_again(tmp_path, monkeypatch):
    from qverify_agents.emulation import image as images

    built = ensure_image("arm64")
    again = images.Image(tmp_path, built.kind, "arm64")
    for name in ("host", "host.pub", "client", "client.pub"):
        shutil.copy(built.folder / name, tmp_path / name)
    shutil.copytree(built.folder / "apt", tmp_path / "apt")
    debs = {p.name.split("_")[0]: p for p in (tmp_path / "apt" / "debs").glob("*.deb")}
    kernel = next(n for n in debs if n.startswith("linux-image-"))
    monkeypatch.setattr(images.Packages, "update", lambda self: None)
    monkeypatch.setattr(images.Packages, "depends", lambda self, package: [kernel])
    monkeypatch.setattr(images.Packages, "closure", lambda self, roots, skip: [n for n in debs if n != kernel])
    monkeypatch.setattr(images.Packages, "fetch", lambda self, names: {n: debs[n] for n in sorted(names)})
    images._build(again, None)
    for name in ("vmlinuz", "initrd.gz", "packages.json"):
        assert (tmp_path / name).read_bytes() == (built.folder / name).read_bytes(), name


def test_without_an_archive_the_message_says_how_each_command_takes_one(tmp_path, monkeypatch):
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(
        BoardUnreachable, match=r"\?mirror=ARCHIVE .* `boards up` and of scripts/build_board of a clone"
    ):
        find_own_mirror()


def test_an_emulated_board_answers_to_its_name_of_the_inventory(board, tmp_path, monkeypatch, capsys):
    (tmp_path / "boards.toml").write_text('[boards.bench]\nuri = "qemu:arm64"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    with qverify("boards", "ssh", "bench", "uname", "-m") as shell:
        assert "aarch64" in shell.communicate(timeout=60)[0]
    assert main(["boards", "console", "bench"]) == 0
    assert board.console in capsys.readouterr().err
    assert main(["boards", "up", "bench"]) == 0 and "bench is up already" in capsys.readouterr().out
    assert main(["boards", "reset", "bench"]) == 0
    assert main(["boards", "down", "bench"]) == 0
    assert main(["boards", "console", "elsewhere"]) == 2 and "not an emulated board" in capsys.readouterr().err
