"""Reads known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT) line by line; lines that cannot be read are
ignored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from qverify_agents.errors import BoardUnreachable

MARKERS = ("@cert-authority", "@revoked")


@dataclass(frozen=True, slots=True)
class KnownHostLine:
    """A line about one host. path: path of the file, for messages. marker: one of MARKERS, or "". kind, blob: kind and
    bytes of the key."""

    path: str
    marker: str
    kind: str
    blob: bytes


def read_known_host_lines(path: str, name: str) -> list[KnownHostLine]:
    """Returns the lines of a file about a host, or [] if there is no such file. Raises BoardUnreachable if it cannot be
    read."""
    if not os.path.isfile(path):
        return []
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BoardUnreachable(f"{path}: cannot be read: {error.strerror}") from error
    return [entry for line in lines if (entry := _parse_line(path, line.split(), name)) is not None]


def _parse_line(path: str, words: list[str], name: str) -> KnownHostLine | None:
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or (marker and marker not in MARKERS):
        return None
    hosts, kind, text = words[:3]
    try:
        blob = base64.b64decode(text, validate=True)
        return KnownHostLine(path, marker, kind, blob) if _matches_host(hosts, name) else None
    except ValueError:
        return None


def _matches_host(hosts: str, name: str) -> bool:
    """Returns whether a line's host field matches the name. It is a hashed name, or patterns separated by commas, where
    a pattern after ! must not match."""
    if hosts.startswith("|1|"):
        salt, _, digest = hosts[3:].partition("|")
        expected = base64.b64decode(digest, validate=True)
        return hmac.digest(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1) == expected
    matching = [p for p in hosts.lower().split(",") if fnmatchcase(name.lower(), _escape_brackets(p.removeprefix("!")))]
    return bool(matching) and not any(p.startswith("!") for p in matching)


def _escape_brackets(pattern: str) -> str:
    """Returns the pattern for fnmatch with every [ escaped, which in known_hosts begins a host with a port."""
    return pattern.replace("[", "[[]")
