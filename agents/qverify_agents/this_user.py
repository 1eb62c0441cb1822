"""Name and folders of who runs this, also of a uid that no passwd entry names."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid{os.getuid()}"


def home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"qverify-{os.getuid()}"


def cache_folder() -> Path:
    """qverify's own of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "qverify"
