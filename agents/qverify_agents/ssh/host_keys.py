"""Checks the key of an SSH host against known_hosts or a pinned key, with advice in the error for a wrong key."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path

from qverify_agents.errors import BoardUnreachable
from qverify_agents.ssh.known_hosts import read_known_host_lines

ALGORITHMS = {
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
}  # signature algorithms of a kind of key, if they differ from its name


def fingerprint(key_blob: bytes) -> str:
    """Returns the fingerprint of a public key as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key_blob).digest()).decode().rstrip("=")


class HostKeys:
    """The known keys of one host.

    Args:
        target: the host as the user typed it, for messages.
        known_as: the host's name in known_hosts.
        files: paths of the known_hosts files.
        pinned: the key "ssh-ed25519 AAAA..." of the inventory, or "". If it is given, only this key is accepted, and no
            file is read.
        accept_new: whether the key of an unknown host is accepted and added to the first file.
        scan: arguments with which ssh-keyscan can fetch the key, or "" if it cannot reach the host.
    """

    def __init__(
        self, target: str, known_as: str, files: tuple[str, ...], pinned: str, accept_new: bool, scan: str = ""
    ):
        self._target, self._known_as, self._files, self._accept_new = target, known_as, files, accept_new
        self._scan_arguments = scan
        self._pinned = parse_pinned_key(pinned) if pinned else None
        self._known = [] if pinned else [entry for path in files for entry in read_known_host_lines(path, known_as)]

    def preferred_algorithms(self) -> list[str]:
        """Returns the signature algorithms to request first, so that the host shows the key that is known."""
        kinds = [e.kind for e in self._known if not e.marker] if self._pinned is None else [self._pinned[0]]
        return [algorithm for kind in dict.fromkeys(kinds) for algorithm in ALGORITHMS.get(kind, (kind,))]

    def check(self, kind: str, blob: bytes) -> None:
        """Checks the key that the host shows. Adds the key of an unknown host if accept_new is set. Raises
        BoardUnreachable for a changed, revoked or unknown key, with the command to run next."""
        if self._pinned is not None:
            self._check_pinned(self._pinned, kind, blob)
            return
        same_key = [e for e in self._known if (e.kind, e.blob) == (kind, blob)]
        if revoked := next((e for e in same_key if e.marker == "@revoked"), None):
            raise BoardUnreachable(
                f"{self._target}: the host shows {fingerprint(blob)} ({kind}), which is revoked in {revoked.path}. "
                "That key must no longer be used: put a new host key on the board"
            )
        if any(not e.marker for e in same_key):
            return
        if other_keys := sorted((e for e in self._known if not e.marker), key=lambda e: e.kind != kind):
            raise BoardUnreachable(self._format_changed(other_keys[0].path, kind, other_keys[0].blob, blob))
        if authority := next((e for e in self._known if e.marker == "@cert-authority"), None):
            raise BoardUnreachable(
                f"{self._target}: {authority.path} knows the host by a certificate authority, which paramiko cannot check; "
                "give --ssh-backend openssh"
            )
        if not self._accept_new:
            raise BoardUnreachable(self._format_unknown(kind, blob))
        self._add_key(kind, blob)

    def _check_pinned(self, pinned: tuple[str, bytes], kind: str, blob: bytes) -> None:
        if pinned != (kind, blob):
            raise BoardUnreachable(
                f"{self._target}: the board shows the host key {fingerprint(blob)} ({kind}), the inventory pins "
                f"{fingerprint(pinned[1])} ({pinned[0]}). Another machine answers, or the board was reflashed; if it was, "
                "put its new key into host_key of boards.toml"
            )

    def _format_unknown(self, kind: str, blob: bytes) -> str:
        file = self._files[0]
        short = kind.removeprefix("ssh-").partition("-")[0]
        scan = (
            f", or: ssh-keyscan -t {short} {self._scan_arguments} >> {shlex.quote(file)}"
            if self._scan_arguments
            else ""
        )
        return (
            f"{self._target}: host key {fingerprint(blob)} ({kind}) is unknown. If that is the board's, give "
            f"--accept-new-host-key once (writes {file}){scan}"
        )

    def _format_changed(self, path: str, kind: str, known_blob: bytes, shown_blob: bytes) -> str:
        return (
            f"{self._target}: REMOTE HOST IDENTIFICATION HAS CHANGED. {path} knows {fingerprint(known_blob)}, the host shows "
            f"{fingerprint(shown_blob)} ({kind}). Somebody may be intercepting the connection, or the board was reflashed; if it was: "
            f"ssh-keygen -f {shlex.quote(path)} -R {shlex.quote(self._known_as)}, then --accept-new-host-key"
        )

    def _add_key(self, kind: str, blob: bytes) -> None:
        path = Path(self._files[0])
        line = f"{self._known_as} {kind} {base64.b64encode(blob).decode()}\n"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            with open(path, "ab") as file:
                file.write((b"" if not content or content.endswith(b"\n") else b"\n") + line.encode())
        except OSError as error:
            raise BoardUnreachable(f"{path}: the new host key cannot be written: {error.strerror}") from error


def parse_pinned_key(text: str) -> tuple[str, bytes]:
    """Returns the kind and the bytes of the key in the option host_key. Raises BoardUnreachable if it is not a public
    key."""
    kind, _, rest = text.strip().partition(" ")
    try:
        return kind, base64.b64decode(rest.split()[0], validate=True)
    except (ValueError, IndexError):
        raise BoardUnreachable(f"host_key {text[:40]!r}: wanted 'ssh-ed25519 AAAA...' as in known_hosts") from None
