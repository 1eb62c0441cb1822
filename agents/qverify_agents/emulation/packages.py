"""Fetches distribution packages of another architecture with apt into a folder of their own; this machine's apt is not
changed."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FETCH_S = 900  # seconds for one command of apt
PAUSES_S = (2.0, 10.0)  # before fetching the package lists again


class Packages:
    """The packages of one architecture. architecture: Debian's name of it. mirror: address of an archive, or None for
    that of this machine's apt. Every method raises BoardUnreachable if apt fails."""

    def __init__(self, folder: Path, architecture: str, suite: str, mirror: str | None = None):
        if shutil.which("apt-get") is None:
            raise BoardUnreachable("building a board's image needs apt-get (Debian or Ubuntu)")
        if not Path(KEYRING).is_file():
            raise BoardUnreachable("building a board's image needs the package debian-archive-keyring")
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        address = mirror or find_own_mirror()
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
            result = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            raise BoardUnreachable(f"{words[0]} {words[-1]}: did not end within {FETCH_S} s") from None
        if result.returncode:
            error_text = next((line for line in result.stderr.splitlines() if line.startswith("E: ")), result.stderr)
            message = last_line(error_text, f"status {result.returncode}")
            raise BoardUnreachable(f"{words[0]} {words[-1][:60]}: {message}")
        return result.stdout

    def update(self) -> None:
        """Fetches the package lists. Tries again if the archive does not answer, because apt's own retries do not cover
        every case."""
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
        """Returns the roots and all packages that they depend on, except those in `skip` and what only these need."""
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
        closure: list[str] = []
        queue = list(roots)
        while queue:
            name = queue.pop(0)
            if name not in closure and name not in skip:
                closure.append(name)
                queue += edges.get(name, [])
        return closure

    def fetch(self, names: list[str]) -> dict[str, Path]:
        """Downloads the packages and returns the newest .deb of each by name. apt checks the signatures."""
        debs = self._folder / "debs"
        for old in debs.glob("*.deb"):
            old.unlink()
        self._run("apt-get", "-q", "download", *names, cwd=debs)
        files = {name: sorted(debs.glob(f"{name}_*.deb")) for name in names}
        missing = [name for name, files in files.items() if not files]
        if missing:
            raise BoardUnreachable(f"apt-get download did not fetch {missing[0]}")
        return {name: files[-1] for name, files in files.items()}


def find_own_mirror() -> str:
    """Returns the address of the first Debian main archive in this machine's apt configuration. Raises BoardUnreachable
    if there is none."""
    result = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    for line in result.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "main" and "-" not in words[1] and words[0].rstrip("/").endswith("/debian"):
            return words[0]
    raise BoardUnreachable(
        "no Debian archive in this machine's apt configuration; name one: ?mirror=ARCHIVE in the board's address, or --mirror "
        "of `boards up` and of scripts/build_board of a clone"
    )
