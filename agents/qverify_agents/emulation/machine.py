"""A machine under QEMU: booted, or restored from a snapshot in a fraction of a second; ended in any case."""

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

_OURS: dict[int, tuple[subprocess.Popen[bytes], int]] = {}  # started here: process to wait for, and its folder's lock
RESTORE_S = 30.0  # it takes about one; a snapshot that has not answered by then is damaged,
RESTORE_PART = 0.25  # or by this part of the time that there is, on a busy host with a long --timeout
NO_ERROR = "char device redirected"  # with which qemu's log begins
MEMORY_MB, MEMORY_PYTHON_MB, READY = 256, 1536, b"QVBOARD-READY"


@dataclass(frozen=True, slots=True)
class RunningMachine:
    """A running machine. port: of ssh on 127.0.0.1. console: a pty. folder: contains console.log and qmp.sock.
    started_s: seconds until it answered. warm: whether it was restored from a snapshot."""

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
    """Returns the machine that `boards up` started, or None."""
    try:
        machine = RunningMachine(**json.loads(state_file(architecture).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return machine if machine.alive else None


def sweep(architecture: str) -> bool:
    """Ends machines that killed processes left; returns whether a machine, or its folder, of this architecture was
    among them."""

    def kept(folder: Path) -> bool:
        return any((one := running(kind)) is not None and Path(one.folder).name == folder.name for kind in KINDS)

    return any(name.startswith(f"{architecture}-") for name in run_folders.sweep(kept))


def start(image: Image, deadline: Deadline, ends_with_us: bool, cold: bool = False) -> RunningMachine:
    """Starts a machine. ends_with_us: it ends with this process, however that ends. cold: boots even if there is a
    snapshot. Raises BoardUnreachable with qemu's message."""
    program = image.kind.machine[0]
    if shutil.which(program) is None or shutil.which("qemu-img") is None:
        raise BoardUnreachable(
            f"no {program} on this machine; apt-get install --no-install-recommends {image.kind.apt} qemu-utils"
        )
    sweep(image.architecture)
    snapshot = _snapshot(image)
    if snapshot.is_file() and not cold and image.kind.restores_network:
        try:
            return _started(image, deadline, ends_with_us, snapshot, warm=True)
        except BoardUnreachable:
            if deadline.over:  # the time ran out, which does not mean that the snapshot is damaged
                raise
            snapshot.unlink(missing_ok=True)  # of another qemu, or damaged
    return _started(image, deadline, ends_with_us, snapshot, warm=False)


def _started(image: Image, deadline: Deadline, ends_with_us: bool, snapshot: Path, warm: bool) -> RunningMachine:
    """Starts a machine from the snapshot if warm; otherwise boots it and makes the snapshot, if it can be restored. Raises BoardUnreachable if
    it does not answer."""
    begun = time.monotonic()
    folder, owner = run_folders.make(image.architecture)
    port, process = _free_port(), None
    try:
        _disk(folder / "vm.qcow2", snapshot if warm else None)
        command = [*_command(image, folder, port), *(["-loadvm", "ready"] if warm else [])]
        with signals_held():
            process = _launched(command, folder, ends_with_us)
        limit = deadline.part(max(RESTORE_S, RESTORE_PART * deadline.left())) if warm else deadline
        kept = snapshot if not warm and image.kind.restores_network else None
        console = _answering(process, folder, port, limit, kept, warm)
    except BaseException as error:
        if process is not None:
            _end(process)
        message = _last_log_line(folder / "qemu.log")
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)
        if isinstance(error, LinkTimeout):
            said = f"{message}; " if message and not message.startswith(NO_ERROR) else ""
            raise BoardUnreachable(f"qemu:{image.architecture} did not boot in time: {said}{error}") from error
        raise
    _OURS[process.pid] = process, owner
    return RunningMachine(image.architecture, port, console, process.pid, str(folder), time.monotonic() - begun, warm)


def _launched(command: list[str], folder: Path, ends_with_us: bool) -> subprocess.Popen[bytes]:
    with open(folder / "qemu.log", "wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            **new_group_arguments(KILL if ends_with_us else 0),
        )


def _answering(
    process: subprocess.Popen[bytes], folder: Path, port: int, limit: Deadline, snapshot: Path | None, warm: bool
) -> str:
    """Waits until it accepts ssh, makes the snapshot if one is wanted, and returns its console, a pty."""
    if not warm:
        _wait_for_boot(process, folder, limit)
    _wait_for_ssh(port, limit, lambda: _still_there(process, folder))
    with Monitor(folder / "qmp.sock", limit) as monitor:
        if snapshot is not None:
            monitor.line("savevm ready")
            _keep(folder / "vm.qcow2", snapshot)
        return monitor.pty("con")


def keep(machine: RunningMachine) -> None:
    """Writes the state file by which later commands find the machine, and releases its folder from this process."""
    path = state_file(machine.architecture)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(machine), indent=1) + "\n")
    part.replace(path)
    if machine.pid in _OURS:
        process, owner = _OURS[machine.pid]
        _OURS[machine.pid] = process, -1
        _release(owner)


def _release(owner: int) -> None:
    if owner >= 0:
        os.close(owner)


def reset(machine: RunningMachine, deadline: Deadline) -> None:
    """Resets the machine and returns when it has booted and answers. Raises BoardUnreachable."""
    log = Path(machine.folder) / "console.log"
    boots = log.read_bytes().count(READY)
    with Monitor(Path(machine.folder) / "qmp.sock", deadline) as monitor:
        monitor.ask("system_reset")
    while log.read_bytes().count(READY) == boots:
        _still_running(machine)
        time.sleep(min(0.05, deadline.left()))
    _wait_for_ssh(machine.port, deadline, lambda: _still_running(machine))


def _still_running(machine: RunningMachine) -> None:
    if not machine.alive:
        raise BoardUnreachable(
            f"qemu:{machine.architecture} ended: {_last_log_line(Path(machine.folder) / 'qemu.log')}"
        )


def stop(machine: RunningMachine) -> None:
    """Ends the machine and removes its folder and its state file."""
    _kill(machine.pid)
    process, owner = _OURS.pop(machine.pid, (None, -1))
    if process is not None:
        _end(process)
    end = time.monotonic() + 5
    while machine.alive and time.monotonic() < end:
        time.sleep(0.02)
    shutil.rmtree(machine.folder, ignore_errors=True)
    _release(owner)
    path = state_file(machine.architecture)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text()).get("pid") == machine.pid:
            path.unlink()


def _command(image: Image, folder: Path, port: int) -> list[str]:
    """Returns qemu's command line. It runs in the folder and names files without it, as a comma would end a name in
    most options."""
    s390x = image.architecture == "s390x"
    freed = " init_on_free=1" if image.python else ""  # zeros are no part of a snapshot
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
        *("-append", f"console={image.kind.console} quiet loglevel=4 panic=-1 random.trust_bootloader=on{freed}"),
        *("-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22", "-device", network),
        *("-qmp", "unix:qmp.sock,server=on,wait=off", "-pidfile", f"{folder}/qemu.pid"),  # by which it is known
        *("-chardev", "pty,id=con,logfile=console.log"),
        *(("-device", "sclpconsole,chardev=con") if s390x else ("-serial", "chardev:con")),
        *("-drive", "if=none,format=qcow2,file=vm.qcow2,id=d0"),
    ]


def _snapshot(image: Image) -> Path:
    """Returns the snapshot's path for this image, qemu version and command line, independent of the image's folder."""
    version = subprocess.run(
        [image.kind.machine[0], "--version"], capture_output=True, text=True, timeout=20, check=False
    ).stdout
    key = sha256()
    for part in (
        version,
        str(_command(replace(image, folder=Path("/i")), Path("/f"), 0)),
        (image.folder / "packages.json").read_text(),
        image.host_key,
    ):
        key.update(part.encode())
    return image.folder / f"snapshot-{key.hexdigest()[:16]}.qcow2"


def _disk(path: Path, snapshot: Path | None) -> None:
    if snapshot is not None:
        shutil.copyfile(snapshot, path)
        return
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", str(path), "64M"], check=True, capture_output=True, timeout=30
    )


def _keep(disk: Path, snapshot: Path) -> None:
    part = snapshot.with_suffix(f".{os.getpid()}.part")
    shutil.copyfile(disk, part)
    part.replace(snapshot)


def _wait_for_boot(process: subprocess.Popen[bytes], folder: Path, deadline: Deadline) -> None:
    while True:
        _still_there(process, folder)
        with contextlib.suppress(OSError):
            if READY in (folder / "console.log").read_bytes():
                return
        time.sleep(min(0.05, deadline.left()))


def _wait_for_ssh(port: int, deadline: Deadline, check: Callable[[], None]) -> None:
    """Waits for ssh's banner: qemu itself accepts the connection long before the board does. check: raises if qemu has
    ended."""
    while True:
        check()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2.0) as one:
            one.settimeout(min(3.0, deadline.left()))
            if one.recv(4) == b"SSH-":
                return
        time.sleep(min(0.05, deadline.left()))


def _still_there(process: subprocess.Popen[bytes], folder: Path) -> None:
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
    """Ends the process. If it does not end (a disk that hangs), no error is raised, which would hide the run's
    result."""
    _kill(process.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
