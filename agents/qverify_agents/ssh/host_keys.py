"""Checks a host's key against known_hosts or a pinned key, with messages for a key that is wrong."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path

from qverify_agents.errors import BoardUnreachable
from qverify_agents.ssh.known_hosts import known_host_lines

ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")}  # of a kind of key, if not its own name


def fingerprint(key_blob: bytes) -> str:
    """Returns the fingerprint as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key_blob).digest()).decode().rstrip("=")


class HostKeys:
    """The known keys of one host. known_as: its name in known_hosts. pinned: "ssh-ed25519 AAAA..." of the inventory; if
    given, it alone decides and no file is read. accept_new: an unknown host is written to the first file. scan:
    ssh-keyscan's arguments, "" if it cannot reach the host."""

    def __init__(
        self, target: str, known_as: str, files: tuple[str, ...], pinned: str, accept_new: bool, scan: str = ""
    ):
        self._target, self._known_as, self._files, self._accept_new = target, known_as, files, accept_new
        self._scan = scan
        self._pinned = pinned_key(pinned) if pinned else None
        self._known = [] if pinned else [entry for path in files for entry in known_host_lines(path, known_as)]

    def known_types(self) -> list[str]:
        """Returns the algorithms to request first, so that the host shows the key we know."""
        kinds = [e.kind for e in self._known if not e.marker] if self._pinned is None else [self._pinned[0]]
        return [algorithm for kind in dict.fromkeys(kinds) for algorithm in ALGORITHMS.get(kind, (kind,))]

    def check(self, kind: str, blob: bytes) -> None:
        """Raises BoardUnreachable for a changed, revoked or unknown key, with the next command. Learns a new key if
        accept_new."""
        if self._pinned is not None:
            self._check_pinned(self._pinned, kind, blob)
            return
        same = [e for e in self._known if (e.kind, e.blob) == (kind, blob)]
        if revoked := next((e for e in same if e.marker == "@revoked"), None):
            raise BoardUnreachable(
                f"{self._target}: the host shows {fingerprint(blob)} ({kind}), which is revoked in {revoked.path}. "
                "That key must no longer be used: put a new host key on the board"
            )
        if any(not e.marker for e in same):
            return
        if plain := sorted((e for e in self._known if not e.marker), key=lambda e: e.kind != kind):
            raise BoardUnreachable(self._changed(plain[0].path, kind, plain[0].blob, blob))
        if authority := next((e for e in self._known if e.marker == "@cert-authority"), None):
            raise BoardUnreachable(
                f"{self._target}: {authority.path} knows the host by a certificate authority, which paramiko cannot check; "
                "give --ssh-backend openssh"
            )
        if not self._accept_new:
            raise BoardUnreachable(self._unknown(kind, blob))
        self._learn(kind, blob)

    def _check_pinned(self, pinned: tuple[str, bytes], kind: str, blob: bytes) -> None:
        if pinned != (kind, blob):
            raise BoardUnreachable(
                f"{self._target}: the board shows the host key {fingerprint(blob)} ({kind}), the inventory pins "
                f"{fingerprint(pinned[1])} ({pinned[0]}). Another machine answers, or the board was reflashed; if it was, "
                "put its new key into host_key of boards.toml"
            )

    def _unknown(self, kind: str, blob: bytes) -> str:
        file = self._files[0]
        short = kind.removeprefix("ssh-").partition("-")[0]
        scan = f", or: ssh-keyscan -t {short} {self._scan} >> {shlex.quote(file)}" if self._scan else ""
        return (
            f"{self._target}: host key {fingerprint(blob)} ({kind}) is unknown. If that is the board's, give "
            f"--accept-new-host-key once (writes {file}){scan}"
        )

    def _changed(self, path: str, kind: str, before: bytes, shown: bytes) -> str:
        return (
            f"{self._target}: REMOTE HOST IDENTIFICATION HAS CHANGED. {path} knows {fingerprint(before)}, the host shows "
            f"{fingerprint(shown)} ({kind}). Somebody may be intercepting the connection, or the board was reflashed; if it was: "
            f"ssh-keygen -f {shlex.quote(path)} -R {shlex.quote(self._known_as)}, then --accept-new-host-key"
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


def pinned_key(text: str) -> tuple[str, bytes]:
    """Returns kind and blob of host_key. Raises BoardUnreachable for a text that is not a public key."""
    kind, _, rest = text.strip().partition(" ")
    try:
        return kind, base64.b64decode(rest.split()[0], validate=True)
    except (ValueError, IndexError):
        raise BoardUnreachable(f"host_key {text[:40]!r}: wanted 'ssh-ed25519 AAAA...' as in known_hosts") from None
