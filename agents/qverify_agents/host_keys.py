"""Is this the host we know: known_hosts, a pinned key, and what is said when it is not."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

from qverify_agents.errors import BoardUnreachable

ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}  # of a kind of key, where not its own name


def fingerprint(key_blob: bytes) -> str:
    """As OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key_blob).digest()).decode().rstrip("=")


class HostKeys:
    """known_as: the name in known_hosts. pinned: "ssh-ed25519 AAAA..." of the inventory, which decides alone.
    accept_new: an unknown host is written to the first file."""

    def __init__(self, target: str, known_as: str, files: tuple[str, ...], pinned: str, accept_new: bool):
        from paramiko.hostkeys import HostKeys as Entries

        self._target, self._known_as, self._files, self._accept_new = target, known_as, files, accept_new
        self._pinned = _pinned(pinned) if pinned else None
        self._entries: list[tuple[str, Any]] = []
        for path in files:
            if os.path.isfile(path):
                entries = Entries()
                try:
                    entries.load(path)
                except (OSError, ValueError) as error:
                    raise BoardUnreachable(f"{path}: cannot be read: {error}") from error
                self._entries.append((path, entries))

    def known_types(self) -> list[str]:
        """Algorithms to ask the host for first, so that it shows the key we know."""
        if self._pinned is not None:
            kinds = [self._pinned[0]]
        else:
            kinds = [t for _, entries in self._entries for t in (entries.lookup(self._known_as) or {})]
        return [algorithm for kind in kinds for algorithm in ALGORITHMS.get(kind, (kind,))]

    def check(self, kind: str, blob: bytes) -> None:
        """Raises BoardUnreachable for a changed or an unknown key, with the next command."""
        if self._pinned is not None:
            if self._pinned != (kind, blob):
                raise BoardUnreachable(
                    f"{self._target}: the board shows the host key {fingerprint(blob)} ({kind}), the inventory pins "
                    f"{fingerprint(self._pinned[1])} ({self._pinned[0]}). Another machine answers, or the board was reflashed: then "
                    "put its new key into host_key of boards.toml"
                )
            return
        for path, entries in self._entries:
            known = entries.lookup(self._known_as) or {}
            if kind in known:
                if known[kind].asbytes() == blob:
                    return
                raise BoardUnreachable(self._changed(path, kind, known[kind].asbytes(), blob))
            if known:
                other = next(iter(known))
                raise BoardUnreachable(self._changed(path, kind, known[other].asbytes(), blob))
        if not self._accept_new:
            raise BoardUnreachable(
                f"{self._target}: host key {fingerprint(blob)} ({kind}) is unknown. If that is the board's, give "
                f"--accept-new-host-key once (writes {self._files[0]}), or: ssh-keyscan the board and add the line yourself"
            )
        self._learn(kind, blob)

    def _changed(self, path: str, kind: str, known: bytes, shown: bytes) -> str:
        return (
            f"{self._target}: REMOTE HOST IDENTIFICATION HAS CHANGED. {path} knows {fingerprint(known)}, the host shows "
            f"{fingerprint(shown)} ({kind}). Somebody may stand in between, or the board was reflashed; if so: "
            f"ssh-keygen -f {path} -R '{self._known_as}', then --accept-new-host-key"
        )

    def _learn(self, kind: str, blob: bytes) -> None:
        path = Path(self._files[0])
        line = f"{self._known_as} {kind} {base64.b64encode(blob).decode()}\n"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = path.read_bytes() if path.exists() else b""
            with open(path, "ab") as file:
                file.write((b"" if not before or before.endswith(b"\n") else b"\n") + line.encode())
        except OSError as error:
            raise BoardUnreachable(f"{path}: the new host key cannot be written: {error.strerror}") from error


def _pinned(text: str) -> tuple[str, bytes]:
    kind, _, rest = text.strip().partition(" ")
    try:
        return kind, base64.b64decode(rest.split()[0], validate=True)
    except (ValueError, IndexError):
        raise BoardUnreachable(f"host_key {text[:40]!r}: wanted 'ssh-ed25519 AAAA...' as in known_hosts") from None
