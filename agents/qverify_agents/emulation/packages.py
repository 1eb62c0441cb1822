"""Fetches distribution packages of another architecture by apt into a separate folder, without changing this machine's
apt."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FETCH_S = 900
PAUSES_S = (2.0, 10.0)  # before the package lists are fetched again


class Packages:
    """Packages of one architecture. architecture: Debian's name. mirror: an archive's address; None for the one in this
    machine's configuration. Raises BoardUnreachable."""

    def __init__(self, folder: Path, architecture: str, suite: str, mirror: str | None = None):
        if shutil.which("apt-get") is None:
            raise BoardUnreachable("building a board's image needs apt-get (Debian or Ubuntu)")
        if not Path(KEYRING).is_file():
            raise BoardUnreachable("building a board's image needs the package debian-archive-keyring")
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        address = mirror or own_mirror()
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {address} {suite} main\n")
        settings = {
            "Dir::State": folder,
            "Dir::State::Lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        self._options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    def _run(self, *words: str, cwd: Path | None = None) -> str:
        command = [words[0], *self._options, *words[1:]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            raise BoardUnreachable(f"{words[0]} {words[-1]}: did not end within {FETCH_S} s") from None
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if line.startswith("E: ")), done.stderr)
            message = last_line(first, f"status {done.returncode}")
            raise BoardUnreachable(f"{words[0]} {words[-1][:60]}: {message}")
        return done.stdout

    def update(self) -> None:
        """Fetches the package lists; again where an archive did not answer, which apt's own retries do not always cover."""
        for pause in PAUSES_S:
            try:
                self._update()
                return
            except BoardUnreachable:
                time.sleep(pause)
        self._update()

    def _update(self) -> None:
        self._run("apt-get", "-q", "update")

    def depends(self, package: str) -> list[str]:
        """Returns the packages that this one depends on directly."""
        words = ("--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances")
        out = self._run("apt-cache", "depends", *words, package)
        names = [line.split()[-1] for line in out.splitlines() if line.strip().startswith(("Depends:", "PreDepends:"))]
        return [name for name in names if not name.startswith("<")]

    def closure(self, roots: list[str], skip: set[str]) -> list[str]:
        """Returns the roots and everything they depend on, without skip."""
        words = (
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
        )
        out = self._run("apt-cache", "depends", *words, *roots)
        edges: dict[str, list[str]] = {}
        current = ""
        for line in out.splitlines():
            if line and not line[0].isspace() and not line.startswith("<"):
                current = line.strip()
                edges.setdefault(current, [])
            elif line.strip().startswith(("Depends:", "PreDepends:")) and "<" not in line:
                edges.setdefault(current, []).append(line.split()[-1])
        seen: list[str] = []
        todo = list(roots)
        while todo:
            name = todo.pop(0)
            if name not in seen and name not in skip:
                seen.append(name)
                todo += edges.get(name, [])
        return seen

    def fetch(self, names: list[str]) -> dict[str, Path]:
        """Downloads the packages and returns the newest .deb of each; apt checks signatures."""
        debs = self._folder / "debs"
        for old in debs.glob("*.deb"):
            old.unlink()
        self._run("apt-get", "-q", "download", *names, cwd=debs)
        files = {name: sorted(debs.glob(f"{name}_*.deb")) for name in names}
        missing = [name for name, files in files.items() if not files]
        if missing:
            raise BoardUnreachable(f"apt-get download did not fetch {missing[0]}")
        return {name: files[-1] for name, files in files.items()}


def own_mirror() -> str:
    """Returns the first main archive of this machine's apt configuration. Raises BoardUnreachable."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "main" and "-" not in words[1] and words[0].rstrip("/").endswith("/debian"):
            return words[0]
    raise BoardUnreachable(
        "no Debian archive in this machine's apt configuration; name one: ?mirror=ARCHIVE in the board's address, or --mirror "
        "of `boards up` and of scripts/build_board of a clone"
    )
