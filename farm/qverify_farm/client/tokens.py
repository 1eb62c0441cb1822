"""Tokens by server, in a file that nobody but its owner may read."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from qverify.errors import BadFileError, UsageError
from qverify.files import json_of, open_regular

MOST_BYTES = 1 << 20
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def tokens_path() -> Path:
    """Returns where the tokens are: QVERIFY_TOKENS, or tokens.json in the user's configuration."""
    if named := os.environ.get("QVERIFY_TOKENS"):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "qverify" / "tokens.json"


def token_for(url: str, given: str | None) -> str:
    """Returns the token to ask a server with: the given one, that of QVERIFY_TOKEN, or that of `qverify login`; "" where
    there is none (a server on loopback may ask for none). BadFileError for a file that others may read."""
    if given is not None:
        if not given:
            raise UsageError("an empty --token (an unset shell variable?)")
        return given
    return os.environ.get("QVERIFY_TOKEN") or read_tokens(tokens_path()).get(url, "")


def read_tokens(path: Path) -> dict[str, str]:
    """Returns the tokens by server. BadFileError for a file that is none, or that others may read."""
    if not path.exists():
        return {}
    with os.fdopen(open_regular(str(path), follow=True), "rb") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
            raise BadFileError(f"{path}: others may read these tokens. Next: chmod 600 {path}")
        data = file.read(MOST_BYTES + 1)
    values = json_of(data[:MOST_BYTES], str(path))
    if not isinstance(values, dict) or not all(isinstance(one, str) for one in values.values()):
        raise BadFileError(f"{path}: wanted an object of tokens by server. Next: remove it, and qverify login URL")
    return values


def save_token(path: Path, url: str, token: str | None) -> None:
    """Writes the token of a server beside the others, or removes it (None), for its owner alone."""
    tokens: Mapping[str, str] = {**read_tokens(path), url: token or ""}
    kept = {key: value for key, value in tokens.items() if value}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tokens-")  # of mode 600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
