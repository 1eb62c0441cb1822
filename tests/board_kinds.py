"""Every kind of board the suites and benches run over, started here on loopback: address, a side door, a way to kill and to reboot it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.deadline import Deadline

from tests.links.pty_board import PtyBoard
from tests.links.servers import DROPBEAR, SSHD, Server

ROOT = Path(__file__).resolve().parents[1]
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NAMES = (
    "local",
    "qemu-user:aarch64",
    "openssh",
    "openssh-backend",
    "dropbear",
    "pty",
    "noisy-pty",
    "qemu-ssh",
    "qemu-serial",
    "container",
    "docker",
)
KILL = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline 2>/dev/null) in *CACHE*qvrt*' agent '*) kill -9 ${p#/proc/};; esac; done"


class Unavailable(Exception):
    """What this machine lacks for a kind of board."""


@dataclass(frozen=True, slots=True)
class Place:
    """address: for -b. there: runs a shell command on the board by a side door, None where there is none. cache: the agent's
    folder on the board. reboot: back up when it returns. slow: a serial line."""

    name: str
    address: str
    there: Callable[[str], str] | None = None
    cache: str = ""
    reboot: Callable[[], None] | None = None
    slow: bool = False

    def with_options(self, **options: object) -> str:
        more = "&".join(f"{k}={v}" for k, v in options.items())
        return f"{self.address}{'&' if '?' in self.address else '?'}{more}" if more else self.address

    def faulty(self, fault: str) -> str:
        """The same board whose runtime spoils a node."""
        return f"faulty:{self.with_options(fault=fault)}"

    def kill_agents(self) -> None:
        if self.there is not None:
            self.there(KILL.replace("CACHE", self.cache))

    def agents(self) -> list[str]:
        """Command lines of living agents of this place."""
        if self.there is None:
            return []
        lines = self.there("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null && echo; done").splitlines()
        return [line for line in lines if "qvrt" in line and " agent " in line and self.cache in line]


@contextlib.contextmanager
def place(name: str, work: Path) -> Iterator[Place]:
    """name: of NAMES, or an address a tester names. Raises Unavailable."""
    kinds: dict[str, Callable[[Path], contextlib.AbstractContextManager[Place]]] = {
        "local": _local,
        "openssh": lambda w: _server("openssh", w),
        "openssh-backend": lambda w: _server("openssh", w, "&backend=openssh"),
        "dropbear": lambda w: _server("dropbear", w),
        "pty": _pty,
        "noisy-pty": lambda w: _pty(w, kind="flip", probability=1e-5, seed=1),
        "qemu-ssh": lambda w: _machine("ssh"),
        "qemu-serial": lambda w: _machine("serial"),
        "container": _podman,
        "docker": _docker,
    }
    if name.startswith("qemu-user:"):
        yield _emulated(name)
        return
    if name not in kinds:
        yield Place(name, name)
        return
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    with kinds[name](folder) as found:
        yield found


def _here(command: str) -> str:
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=30, check=False)
    return done.stdout.decode(errors="replace")


@contextlib.contextmanager
def _local(work: Path) -> Iterator[Place]:
    store = work / "store"
    yield Place("local", f"local?store={store}", _here, str(store))


def _emulated(name: str) -> Place:
    from qverify_agents.emulation.user_mode import find_emulator

    architecture = name.partition(":")[2]
    if find_emulator(architecture) is None:
        raise Unavailable(f"no qemu-user for {architecture} on this machine")
    return Place(name, name)


@contextlib.contextmanager
def _server(kind: str, work: Path, more: str = "") -> Iterator[Place]:
    if (SSHD if kind == "openssh" else DROPBEAR) is None:
        raise Unavailable(f"no {'sshd' if kind == 'openssh' else kind} on this machine")
    server = Server(kind, work)
    try:
        server.trust()
        yield Place(kind, server.board + more, _here, str(server.cache))
    finally:
        server.close()


@contextlib.contextmanager
def _pty(work: Path, kind: str = "none", probability: float = 0.0, seed: int = 0) -> Iterator[Place]:
    with PtyBoard(kind=kind, probability=probability, seed=seed, home=work) as board:
        name = "noisy-pty" if probability else "pty"
        yield Place(name, f"{board.address}&cache={work}/cache", _here, f"{work}/cache", slow=True)


@contextlib.contextmanager
def _machine(link: str) -> Iterator[Place]:
    from qverify_agents.connect import connect
    from qverify_agents.emulation import machine
    from qverify_agents.emulation.image import ensure_image

    missing = next((p for p in ("qemu-system-aarch64", "qemu-img", "apt-get") if shutil.which(p) is None), None)
    if missing or not KEYRING.exists():
        raise Unavailable(f"no {missing or KEYRING.name} on this machine")
    built = ensure_image("arm64")
    running = machine.start(built, Deadline(180), ends_with_us=True)
    ssh = f"ssh://root@127.0.0.1:{running.port}?host_key={built.host_key}&identity={built.identity}&ask=never"

    def there(command: str) -> str:
        from qverify_agents.connect import open_board_shell

        with open_board_shell(ssh, 30) as (run, _):
            return run(command).out.decode(errors="replace")

    def reboot() -> None:
        machine.reset(running, Deadline(120))

    try:
        if (
            link == "serial"
        ):  # each takes a minute over it, as systems/test_qemu_board.py shows; / is home to the console's shell
            for uri in (ssh, f"faulty:{ssh}&fault=bitflip@u"):
                connect(f"{uri}&cache=/.cache/qverify", 60).close()
        address = ssh if link == "ssh" else f"serial://{running.console}"
        yield Place(f"qemu-{link}", address, there, "/qverify", reboot, link == "serial")
    finally:
        machine.stop(running)


CONTAINERS = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@contextlib.contextmanager
def container_store(work: Path) -> Iterator[None]:
    """podman with a store of its own under work, named by the environment; nothing of the machine's podman is touched."""
    (work / "containers.conf").write_text(CONTAINERS)
    (work / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{work}/st"\nrunroot = "{work}/rr"\n')
    before = dict(os.environ)
    os.environ["CONTAINERS_CONF"] = str(work / "containers.conf")
    os.environ["CONTAINERS_STORAGE_CONF"] = str(work / "storage.conf")
    try:
        yield
    finally:
        for words in (["podman", "rm", "-af", "-t", "0"], ["podman", "rmi", "-af"]):
            subprocess.run(words, capture_output=True, timeout=60, check=False)
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def docker_daemon(work: Path) -> Iterator[None]:
    """dockerd with everything of its own under work and no network, named by the environment."""
    socket = f"unix://{work}/d.sock"
    words = ["dockerd", "--data-root", f"{work}/data", "--exec-root", f"{work}/exec", "-p", f"{work}/pid", "-H", socket]
    words += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs"]
    before = os.environ.get("DOCKER_HOST")
    with (work / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as daemon:
        try:
            os.environ["DOCKER_HOST"] = socket
            end = time.monotonic() + 30
            while subprocess.run(["docker", "info"], capture_output=True, timeout=30, check=False).returncode:
                if daemon.poll() is not None or time.monotonic() > end:
                    said = (work / "log").read_text(errors="replace").strip().splitlines()
                    raise Unavailable(f"dockerd does not start here: {said[-1][-200:] if said else 'no word'}")
                time.sleep(0.2)
            yield
        finally:
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before
            daemon.terminate()


@contextlib.contextmanager
def _podman(work: Path) -> Iterator[Place]:
    with container_store(work):
        yield from _container("podman", "container", ("podman", "runc"))


@contextlib.contextmanager
def _docker(work: Path) -> Iterator[Place]:
    _there("docker", "dockerd", "containerd", "runc")
    with docker_daemon(work):
        yield from _container("docker", "docker", ())


def _there(*programs: str) -> None:
    """Unavailable where images cannot be made."""
    missing = next((p for p in (*programs, "apt-get") if shutil.which(p) is None), None)
    if missing or not KEYRING.exists() or os.geteuid() != 0:
        raise Unavailable(f"no {missing or KEYRING.name} on this machine, or not root")


def _container(engine: str, name: str, programs: tuple[str, ...]) -> Iterator[Place]:
    _there(*programs)
    for words in (
        [sys.executable, str(ROOT / "scripts" / "build_board"), f"{engine}:qvtest"],
        [engine, "run", "--rm", "--network", "none", "qvtest", "/bin/true"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise Unavailable(f"{engine} cannot make and run images here: {done.stderr.strip()[-200:]}")
    yield Place(name, f"{engine}:qvtest", _here, "/root/.cache/qverify")


def containers(engine: str) -> list[str]:
    """Returns the ids of all containers of the engine, podman or docker."""
    done = subprocess.run([engine, "ps", "-aq"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def own_children() -> list[int]:
    """Processes of this one that are agents: the board `local`."""
    found = []
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"agent" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def kill_own_children() -> None:
    for child in own_children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
