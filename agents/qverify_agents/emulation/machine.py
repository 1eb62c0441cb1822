"""A machine under QEMU: booted, or restored from a snapshot in a fraction of a second; ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from qverify_agents.deadline import Deadline
from qverify_agents.die_with_parent import die_with_parent
from qverify_agents.emulation import run_folders
from qverify_agents.emulation.image import KINDS, Image
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line

_OURS: dict[int, tuple[subprocess.Popen[bytes], int]] = {}  # started here: to be waited for, and the hold on its folder
BOOT_S = 120.0
RESTORE_S = 30.0  # it takes about one; a snapshot that has not answered by then is damaged
MEMORY_MB, READY = 256, b"QVBOARD-READY"


@dataclass(frozen=True, slots=True)
class RunningMachine:
    """architecture, port: of ssh on 127.0.0.1. console: a pty. folder: console.log, qmp.sock. started_s: until it answered."""

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
    return run_folders.root() / f"{architecture}.json"


def running(architecture: str) -> RunningMachine | None:
    """The one `boards up` left there."""
    try:
        found = RunningMachine(**json.loads(state_file(architecture).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.alive else None


def sweep(architecture: str) -> bool:
    """Ends what killed processes have left; whether a machine, or what was to be one, of this architecture was among it."""

    def kept(folder: Path) -> bool:
        return any((one := running(kind)) is not None and Path(one.folder).name == folder.name for kind in KINDS)

    return any(name.startswith(f"{architecture}-") for name in run_folders.sweep(kept))


def start(image: Image, deadline: Deadline, ends_with_us: bool, cold: bool = False) -> RunningMachine:
    """ends_with_us: the machine dies with this process, however that ends. cold: booted though there is a snapshot.
    BoardUnreachable with qemu's own words."""
    program = image.kind.machine[0]
    if shutil.which(program) is None or shutil.which("qemu-img") is None:
        raise BoardUnreachable(
            f"no {program} on this machine; apt-get install --no-install-recommends {image.kind.apt} qemu-utils"
        )
    sweep(image.architecture)
    snapshot = _snapshot(image)
    if snapshot.is_file() and not cold:
        try:
            return _started(image, deadline, ends_with_us, snapshot, warm=True)
        except BoardUnreachable:
            if deadline.over:  # the caller would not wait: nothing is known against the snapshot
                raise
            snapshot.unlink(missing_ok=True)  # of another qemu, or damaged
    return _started(image, deadline, ends_with_us, snapshot, warm=False)


def _started(image: Image, deadline: Deadline, ends_with_us: bool, snapshot: Path, warm: bool) -> RunningMachine:
    """warm: out of the snapshot; otherwise booted, and the snapshot is made. BoardUnreachable where it does not answer."""
    begun = time.monotonic()
    folder, owner = run_folders.make(image.architecture)
    port, process = _free_port(), None
    try:
        _disk(folder / "vm.qcow2", snapshot if warm else None)
        command = [*_command(image, folder, port), *(["-loadvm", "ready"] if warm else [])]
        process = _launched(command, folder, ends_with_us)
        console = _answering(process, folder, port, deadline.part(RESTORE_S if warm else BOOT_S), snapshot, warm)
    except BaseException as error:
        if process is not None:
            _end(process)
        said = _said(folder / "qemu.log")
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owner)
        if isinstance(error, LinkTimeout):
            raise BoardUnreachable(
                f"qemu:{image.architecture} did not boot in time{': ' + said if said else ''}"
            ) from error
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
            start_new_session=True,
            preexec_fn=die_with_parent if ends_with_us else None,
        )


def _answering(
    process: subprocess.Popen[bytes], folder: Path, port: int, limit: Deadline, snapshot: Path, warm: bool
) -> str:
    """Waits until it takes ssh; of one that was booted, keeps the snapshot. Its console, a pty."""
    if not warm:
        _wait_for_boot(process, folder, limit)
    _wait_for_ssh(port, limit, lambda: _still_there(process, folder))
    with Monitor(folder / "qmp.sock", limit) as monitor:
        if not warm:
            monitor.line("savevm ready")
            _keep(folder / "vm.qcow2", snapshot)
        return monitor.pty("con")


def keep(machine: RunningMachine) -> None:
    """Writes the state by which later commands find it: its folder is no longer this process' own."""
    path = state_file(machine.architecture)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(machine), indent=1) + "\n")
    part.replace(path)
    if machine.pid in _OURS:
        process, owner = _OURS[machine.pid]
        _OURS[machine.pid] = process, -1
        _let_go(owner)


def _let_go(owner: int) -> None:
    if owner >= 0:
        os.close(owner)


def reset(machine: RunningMachine, deadline: Deadline) -> None:
    """As its reset button; it has booted and answers when this returns."""
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
        raise BoardUnreachable(f"qemu:{machine.architecture} ended: {_said(Path(machine.folder) / 'qemu.log')}")


def stop(machine: RunningMachine) -> None:
    _kill(machine.pid)
    process, owner = _OURS.pop(machine.pid, (None, -1))
    if process is not None:
        _end(process)
    end = time.monotonic() + 5
    while machine.alive and time.monotonic() < end:
        time.sleep(0.02)
    shutil.rmtree(machine.folder, ignore_errors=True)
    _let_go(owner)
    path = state_file(machine.architecture)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text()).get("pid") == machine.pid:
            path.unlink()


class Monitor:
    """QMP, as little of it as is needed."""

    def __init__(self, path: Path, deadline: Deadline):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(min(30.0, deadline.left()))
        try:
            _connect(self._socket, path)
        except OSError as error:
            self._socket.close()
            raise BoardUnreachable(f"qemu's monitor does not answer: {error.strerror}") from error
        self._file = self._socket.makefile("rwb")
        json.loads(self._file.readline())
        self.ask("qmp_capabilities")

    def ask(self, name: str, **arguments: Any) -> Any:
        self._file.write(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        self._file.flush()
        while line := self._file.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise BoardUnreachable(f"qemu refuses {name}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]
        raise BoardUnreachable("qemu ended")

    def line(self, text: str) -> None:
        """A line of the human monitor; its complaint is an error."""
        said = self.ask("human-monitor-command", **{"command-line": text})
        if said:
            raise BoardUnreachable(f"qemu says to {text}: {str(said).strip()[:200]}")

    def pty(self, label: str) -> str:
        return next(str(c["filename"]).removeprefix("pty:") for c in self.ask("query-chardev") if c["label"] == label)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def _connect(one: socket.socket, path: Path) -> None:
    """However long the path: a socket's name has 108 bytes, and its folder's number has few."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        one.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _command(image: Image, folder: Path, port: int) -> list[str]:
    """Started within the folder, and its files named without it: in most options a comma would end a name."""
    s390x = image.architecture == "s390x"
    network = "virtio-net-ccw,netdev=n0" if s390x else "virtio-net-pci,netdev=n0,romfile="
    return [
        *image.kind.machine,
        *("-smp", "1", "-m", str(MEMORY_MB), "-display", "none", "-nodefaults", "-no-user-config"),
        *("-kernel", str(image.folder.absolute() / "vmlinuz"), "-initrd", str(image.folder.absolute() / "initrd.gz")),
        *("-append", f"console={image.kind.console} quiet loglevel=4 panic=-1 random.trust_bootloader=on"),
        *("-netdev", f"user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22", "-device", network),
        *("-qmp", "unix:qmp.sock,server=on,wait=off", "-pidfile", f"{folder}/qemu.pid"),  # by which it is known
        *("-chardev", "pty,id=con,logfile=console.log"),
        *(("-device", "sclpconsole,chardev=con") if s390x else ("-serial", "chardev:con")),
        *("-drive", "if=none,format=qcow2,file=vm.qcow2,id=d0"),
    ]


def _snapshot(image: Image) -> Path:
    """The file for this image, this qemu and these words, wherever the image lies."""
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
    """Until a banner comes: qemu itself takes the connection long before the board does. check: raises when qemu ended."""
    while True:
        check()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2.0) as one:
            one.settimeout(min(3.0, deadline.left()))
            if one.recv(4) == b"SSH-":
                return
        time.sleep(min(0.05, deadline.left()))


def _still_there(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.poll() is not None:
        raise BoardUnreachable(f"qemu ended with status {process.returncode}: {_said(folder / 'qemu.log')}")


def _said(log: Path) -> str:
    try:
        return last_line(log.read_bytes())
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """One that does not go (a disk that hangs) hides nothing of what the run found."""
    _kill(process.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
