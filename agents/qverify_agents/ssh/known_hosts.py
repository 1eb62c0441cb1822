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
    """A line about the host. marker: one of MARKERS or "". path: of the file, for messages."""

    path: str
    marker: str
    kind: str
    blob: bytes


def known_host_lines(path: str, name: str) -> list[KnownHostLine]:
    """Returns the file's lines about a host; none if there is no such file. Raises BoardUnreachable if it cannot be
    read."""
    if not os.path.isfile(path):
        return []
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BoardUnreachable(f"{path}: cannot be read: {error.strerror}") from error
    return [entry for line in lines if (entry := _read(path, line.split(), name)) is not None]


def _read(path: str, words: list[str], name: str) -> KnownHostLine | None:
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or (marker and marker not in MARKERS):
        return None
    hosts, kind, text = words[:3]
    try:
        blob = base64.b64decode(text, validate=True)
        return KnownHostLine(path, marker, kind, blob) if _names(hosts, name) else None
    except ValueError:
        return None


def _names(hosts: str, name: str) -> bool:
    """Returns whether hosts matches the name. hosts: a hashed name, or patterns separated by commas; one after ! must
    not match."""
    if hosts.startswith("|1|"):
        salt, _, digest = hosts[3:].partition("|")
        wanted = base64.b64decode(digest, validate=True)
        return hmac.digest(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1) == wanted
    fitting = [p for p in hosts.lower().split(",") if fnmatchcase(name.lower(), _literal(p.removeprefix("!")))]
    return bool(fitting) and not any(p.startswith("!") for p in fitting)


def _literal(pattern: str) -> str:
    """Returns the pattern for fnmatch, where [ would begin a set of characters; here it is literal, before a port."""
    return pattern.replace("[", "[[]")
