"""Stores the tokens of servers in a file that only its owner may read."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from qverify.errors import BadFileError, UsageError
from qverify.files import open_regular, parse_json

MAX_BYTES = 1 << 20
GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def tokens_path() -> Path:
    """Returns the path of the file: QVERIFY_TOKENS, or qverify/tokens.json in the user's configuration folder."""
    if named := os.environ.get("QVERIFY_TOKENS"):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "qverify" / "tokens.json"


def token_for(url: str, given: str | None) -> str:
    """Returns the token for a server: the given one, that of QVERIFY_TOKEN, or that of `qverify login`; "" if there is none,
    since a server on loopback may not need one. Raises BadFileError if other users may read the file."""
    if given is not None:
        if not given:
            raise UsageError("an empty --token (an unset shell variable?)")
        return given
    return os.environ.get("QVERIFY_TOKEN") or read_tokens(tokens_path()).get(url, "")


def read_tokens(path: Path) -> dict[str, str]:
    """Returns the tokens by server. Raises BadFileError if the file has another format, or if other users may read it."""
    if not path.exists():
        return {}
    with os.fdopen(open_regular(str(path), follow=True), "rb") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & GROUP_AND_OTHERS:
            raise BadFileError(f"{path}: others may read these tokens. Next: chmod 600 {path}")
        data = file.read(MAX_BYTES + 1)
    values = parse_json(data[:MAX_BYTES], str(path))
    if not isinstance(values, dict) or not all(isinstance(token, str) for token in values.values()):
        raise BadFileError(f"{path}: wanted an object of tokens by server. Next: remove it, and qverify login URL")
    return values


def save_token(path: Path, url: str, token: str | None) -> None:
    """Adds or replaces the token of a server, or removes it if `token` is None. Only the owner may read the file."""
    tokens: Mapping[str, str] = {**read_tokens(path), url: token or ""}
    non_empty = {key: value for key, value in tokens.items() if value}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tokens-")  # of mode 600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(non_empty, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
