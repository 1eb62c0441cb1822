"""A machine under QEMU: booted, or restored from a snapshot in a fraction of a second, and always ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from qverify_agents.deadline import Deadline
from qverify_agents.emulation import run_folders
from qverify_agents.emulation.image import KINDS, Image
from qverify_agents.emulation.monitor import Monitor
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line
from qverify_agents.process_group import KILL, new_group_arguments
from qverify_agents.signals_held import signals_held

_STARTED_HERE: dict[
    int, tuple[subprocess.Popen[bytes], int]
] = {}  # by process id: the process, and the descriptor that owns its folder
# A restore takes about a second. A snapshot from which no machine has answered after RESTORE_S seconds, or after this
# share of the time left if that is longer (on a busy host with a long --timeout), is damaged.
RESTORE_S, RESTORE_SHARE = 30.0, 0.25
LOG_BEGINNING = "char device redirected"  # beginning of qemu's log, which is no error
MEMORY_MB, MEMORY_PYTHON_MB, READY = 256, 1536, b"QVBOARD-READY"


@dataclass(frozen=True, slots=True)
class RunningMachine:
    """A running machine.

    Attributes:
        architecture: its architecture.
        port: port of its SSH server on 127.0.0.1.
        console: path of the pty of its console.
        pid: process id of qemu.
        folder: its folder, which contains console.log and qmp.sock.
        started_s: seconds from its start until it answered.
        warm: whether it was restored from a snapshot.
    """

    architecture: str
    port: int
    console: str
    pid: int
    folder: str
    started_s: float
    warm: bool

    @property
    def alive(self) -> bool:
        return run_folders.runs_in(self.pid, Path(self.folder))


def state_file(architecture: str) -> Path:
    """Returns the path of the state file that `boards up` writes."""
    return run_folders.root() / f"{architecture}.json"


def running(architecture: str) -> RunningMachine | None:
    """Returns the running machine that `boards up` started, or None."""
    try:
        machine = RunningMachine(**json.loads(state_file(architecture).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return machine if machine.alive else None


def sweep(architecture: str) -> bool:
    """Ends the machines that killed processes left running. Returns whether one of them, or its folder, was of this
    architecture."""

    def kept(folder: Path) -> bool:
        return any(
            (machine := running(kind)) is not None and Path(machine.folder).name == folder.name for kind in KINDS
        )

    return any(name.startswith(f"{architecture}-") for name in run_folders.sweep(kept))


def start(image: Image, deadline: Deadline, ends_with_us: bool, cold: bool = False) -> RunningMachine:
    """Starts a machine and returns it once it answers. ends_with_us: whether it ends with this process, in whatever way
    that ends. cold: boot it even if there is a snapshot. Raises BoardUnreachable with qemu's error message."""
    program = image.kind.machine[0]
    if shutil.which(program) is None or shutil.which("qemu-img") is None:
        raise BoardUnreachable(
            f"no {program} on this machine; apt-get install --no-install-recommends {image.kind.apt} qemu-utils"
        )
    sweep(image.architecture)
    snapshot = _snapshot_path(image)
    if snapshot.is_file() and not cold and image.kind.restores_network:
        try:
            return _start_once(image, deadline, ends_with_us, snapshot, warm=True)
        except BoardUnreachable:
            if deadline.over:  # no time is left; the snapshot may be sound
                raise
            snapshot.unlink(missing_ok=True)  # made by another qemu, or damaged
    return _start_once(image, deadline, ends_with_us, snapshot, warm=False)


def _start_once(image: Image, deadline: Deadline, ends_with_us: bool, snapshot: Path, warm: bool) -> RunningMachine:
    """Starts a machine, if `warm` from the snapshot. Otherwise boots it and saves the snapshot, unless this kind of
    machine cannot be restored. Raises BoardUnreachable if it does not answer."""
    start = time.monotonic()
    folder, owner = run_folders.make(image.architecture)
    port, process = _free_port(), None
    try:
        _make_disk(folder / "vm.qcow2", snapshot if warm else None)
        command = [*_qemu_command(image, folder, port), *(["-loadvm", "ready"] if warm else [])]
        with signals_held():
            process = _launch(command, folder, ends_with_us)
        limit = deadline.part(max(RESTORE_S, RESTORE_SHARE * deadline.left())) if warm else deadline
        new_snapshot = snapshot if not warm and image.kind.restores_network else None
        console = _wait_until_ready(process, folder, port, limit, new_snapshot, warm)
    except BaseException as error:
        if process is not None:
            _end(process)
        message = _last_log_line(folder / "qemu.log")
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)
        if isinstance(error, LinkTimeout):
            log_note = f"{message}; " if message and not message.startswith(LOG_BEGINNING) else ""
            raise BoardUnreachable(f"qemu:{image.architecture} did not boot in time: {log_note}{error}") from error
        raise
    _STARTED_HERE[process.pid] = process, owner
    return RunningMachine(image.architecture, port, console, process.pid, str(folder), time.monotonic() - start, warm)


def _launch(command: list[str], folder: Path, ends_with_us: bool) -> subprocess.Popen[bytes]:
    with open(folder / "qemu.log", "wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            **new_group_arguments(KILL if ends_with_us else 0),
        )


def _wait_until_ready(
    process: subprocess.Popen[bytes], folder: Path, port: int, limit: Deadline, snapshot: Path | None, warm: bool
) -> str:
    """Waits until the machine accepts SSH connections, saves a snapshot if a path for it is given, and returns the path
    of the console's pty."""
    if not warm:
        _wait_for_boot(process, folder, limit)
    _wait_for_ssh(port, limit, lambda: _check_process(process, folder))
    with Monitor(folder / "qmp.sock", limit) as monitor:
        if snapshot is not None:
            monitor.line("savevm ready")
            _save_snapshot(folder / "vm.qcow2", snapshot)
        return monitor.pty("con")


def keep(machine: RunningMachine) -> None:
    """Writes the state file by which later commands find the machine. From then on, its folder no longer belongs to
    this process."""
    path = state_file(machine.architecture)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(machine), indent=1) + "\n")
    part.replace(path)
    if machine.pid in _STARTED_HERE:
        process, owner = _STARTED_HERE[machine.pid]
        _STARTED_HERE[machine.pid] = process, -1
        _release_folder(owner)


def _release_folder(owner: int) -> None:
    if owner >= 0:
        os.close(owner)


def reset(machine: RunningMachine, deadline: Deadline) -> None:
    """Resets the machine and waits until it has booted and answers. Raises BoardUnreachable."""
    log = Path(machine.folder) / "console.log"
    boots = log.read_bytes().count(READY)
    with Monitor(Path(machine.folder) / "qmp.sock", deadline) as monitor:
        monitor.ask("system_reset")
    while log.read_bytes().count(READY) == boots:
        _check_running(machine)
        time.sleep(min(0.05, deadline.left()))
    _wait_for_ssh(machine.port, deadline, lambda: _check_running(machine))


def _check_running(machine: RunningMachine) -> None:
    if not machine.alive:
        raise BoardUnreachable(
            f"qemu:{machine.architecture} ended: {_last_log_line(Path(machine.folder) / 'qemu.log')}"
        )


def stop(machine: RunningMachine) -> None:
    """Ends the machine and removes its folder and its state file."""
    _kill(machine.pid)
    process, owner = _STARTED_HERE.pop(machine.pid, (None, -1))
    if process is not None:
        _end(process)
    end = time.monotonic() + 5
    while machine.alive and time.monotonic() < end:
        time.sleep(0.02)
    shutil.rmtree(machine.folder, ignore_errors=True)
    _release_folder(owner)
    path = state_file(machine.architecture)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text()).get("pid") == machine.pid:
            path.unlink()


def _qemu_command(image: Image, folder: Path, port: int) -> list[str]:
    """Returns qemu's command line. qemu runs in the folder, so that most files are named without it: in most options a
    comma in the path would end the name."""
    s390x = image.architecture == "s390x"
    kernel_option = " init_on_free=1" if image.python else ""  # free memory is zero, and a snapshot omits zeros
    network = "virtio-net-ccw,netdev=n0" if s390x else "virtio-net-pci,netdev=n0,romfile="
    return [
        *image.kind.machine,
        *(
            "-smp",
            "1",
            "-m",
            str(MEMORY_PYTHON_MB if image.python else MEMORY_MB),
            "-display",
            "none",
            "-nodefaults",
            "-no-user-config",
        ),
        *("-kernel", str(image.folder.absolute() / "vmlinuz"), "-initrd", str(image.folder.absolute() / image.initrd)),
        *(
            "-append",
            f"console={image.kind.console} quiet loglevel=4 panic=-1 random.trust_bootloader=on{kernel_option}",
        ),
        *("-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22", "-device", network),
        *(
            "-qmp",
            "unix:qmp.sock,server=on,wait=off",
            "-pidfile",
            f"{folder}/qemu.pid",
        ),  # by this path, run_folders.runs_in finds qemu's process
        *("-chardev", "pty,id=con,logfile=console.log"),
        *(("-device", "sclpconsole,chardev=con") if s390x else ("-serial", "chardev:con")),
        *("-drive", "if=none,format=qcow2,file=vm.qcow2,id=d0"),
    ]


def _snapshot_path(image: Image) -> Path:
    """Returns the path of the snapshot for this image, qemu version and command line. Its file name does not depend on
    where the image's folder is."""
    version = subprocess.run(
        [image.kind.machine[0], "--version"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    key = sha256()
    for part in (
        version,
        str(_qemu_command(replace(image, folder=Path("/i")), Path("/f"), 0)),
        (image.folder / "packages.json").read_text(),
        image.host_key,
    ):
        key.update(part.encode())
    return image.folder / f"snapshot-{key.hexdigest()[:16]}.qcow2"


def _make_disk(path: Path, snapshot: Path | None) -> None:
    if snapshot is not None:
        shutil.copyfile(snapshot, path)
        return
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", str(path), "64M"], check=True, capture_output=True, timeout=30
    )


def _save_snapshot(disk: Path, snapshot: Path) -> None:
    part = snapshot.with_suffix(f".{os.getpid()}.part")
    shutil.copyfile(disk, part)
    part.replace(snapshot)


def _wait_for_boot(process: subprocess.Popen[bytes], folder: Path, deadline: Deadline) -> None:
    while True:
        _check_process(process, folder)
        with contextlib.suppress(OSError):
            if READY in (folder / "console.log").read_bytes():
                return
        time.sleep(min(0.05, deadline.left()))


def _wait_for_ssh(port: int, deadline: Deadline, check: Callable[[], None]) -> None:
    """Waits for the banner of the SSH server: qemu itself accepts connections long before the board does. check: raises
    an error if qemu has ended."""
    while True:
        check()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2.0) as connection:
            connection.settimeout(min(3.0, deadline.left()))
            if connection.recv(4) == b"SSH-":
                return
        time.sleep(min(0.05, deadline.left()))


def _check_process(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.poll() is not None:
        raise BoardUnreachable(f"qemu ended with status {process.returncode}: {_last_log_line(folder / 'qemu.log')}")


def _last_log_line(log: Path) -> str:
    try:
        return last_line(log.read_bytes())
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, KILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process. Raises no error if it does not end (as with a disk that hangs), because that would hide the
    result of the run."""
    _kill(process.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
