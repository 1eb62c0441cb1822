"""OpenSSH and dropbear servers on loopback with keys of their own; each ends with the test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.links.ssh import open_shell

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
DROPBEAR = shutil.which("dropbear", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """kind: openssh or dropbear. config: an ssh configuration in which the host is called `testboard`. home: of the
    logged-in user's agent cache (?cache=)."""

    def __init__(self, kind: str, folder: Path, *, port: int = 0):
        self.kind, self.folder, self.port = kind, folder, port or free_port()
        self.key, self.known, self.config, self.cache = (
            folder / n for n in ("client", "known_hosts", "config", "cache")
        )
        if not self.key.exists():
            for name in ("host", "client"):
                keygen(folder / name)
            (folder / "authorized_keys").write_bytes((folder / "client.pub").read_bytes())
            os.chmod(folder / "authorized_keys", 0o600)
        self.write_config()
        self._log = open(folder / "server.log", "ab")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(self._command(), stdout=self._log, stderr=self._log, start_new_session=True)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError((folder / "server.log").read_text()[-500:])

    @property
    def board(self) -> str:
        return f"testboard?cache={self.cache}&ssh_config={self.config}&lock={self.folder}/lock"

    def write_config(self, more: str = "") -> None:
        self.config.write_text(
            f"Host testboard\n  HostName 127.0.0.1\n  Port {self.port}\n  User {os.environ.get('USER') or 'root'}\n"
            f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known}\n  GlobalKnownHostsFile /dev/null\n{more}"
        )

    def trust(self) -> None:
        kind, blob = (self.folder / "host.pub").read_text().split()[:2]
        self.known.write_text(f"[127.0.0.1]:{self.port} {kind} {blob}\n")

    def _command(self) -> list[str]:
        if self.kind == "dropbear":
            own = self.folder / "dropbear_host"
            subprocess.run(
                ["dropbearconvert", "openssh", "dropbear", self.folder / "host", own], check=True, capture_output=True
            )
            authorized = self.folder / "authorized_keys"
            self._lent = (
                authorized.read_text()
            )  # dropbear looks into the home folder alone: the key is lent for the test
            with authorized_keys() as lines:
                lines.append(self._lent)
            return [
                str(DROPBEAR),
                "-F",
                "-E",
                "-r",
                str(own),
                "-p",
                f"127.0.0.1:{self.port}",
                "-P",
                str(self.folder / "pid"),
            ]
        Path("/run/sshd").mkdir(exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder / 'host'}\nAuthorizedKeysFile {self.folder / 'authorized_keys'}\n"
            f"PidFile {self.folder / 'pid'}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nAllowTcpForwarding yes\nSubsystem sftp internal-sftp\n"
        )
        return [str(SSHD), "-D", "-e", "-f", str(config)]

    def drop_connections(self) -> None:
        """What a pulled cable looks like once TCP notices: every session ends, the server stays."""
        for child in children(self._process.pid):
            for grandchild in [*children(child), child]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(grandchild, signal.SIGKILL)

    def close(self) -> None:
        self.drop_connections()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(5)
        self._log.close()
        if hasattr(self, "_lent"):
            with authorized_keys() as lines:
                lines.remove(self._lent)


@contextlib.contextmanager
def authorized_keys() -> Iterator[list[str]]:
    """The lines of the user's own file, to be changed: one process at a time, and what others added stays."""
    path = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".ssh" / "authorized_keys"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        lines = [f"{line}\n" for line in path.read_text().splitlines()] if path.exists() else []
        yield lines
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_text("".join(lines))
        part.chmod(0o600)
        part.replace(path)
        if not lines:
            path.unlink()
    finally:
        os.close(folder)


def keygen(path: Path, passphrase: str = "") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True, capture_output=True)


def children(process: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def no_agents_of(cache: Path, within_s: float = 15.0) -> bool:
    """Whether no agent under the cache lives, once this time is over: the last one ends by itself after its connection."""
    end = time.monotonic() + within_s
    while agents_of(cache) and time.monotonic() < end:
        time.sleep(0.1)
    return not agents_of(cache)


def agents_of(cache: Path) -> list[str]:
    """Command lines of living agents that lie under the cache."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if folder.name.isdigit()
                else ""
            )
            if str(cache) in line and " agent " in line:
                found.append(line)
    return found


def said_by(server: Server, options: str = "") -> bytes:
    """What `echo hello` gives in a shell there."""
    shell = open_shell(parse(server.board + options), Deadline(20))
    try:
        return shell.run("echo hello", Deadline(10)).out
    finally:
        shell.close()
