"""The name and folders of the current user, also for a user id without an entry in passwd."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path


def user_name() -> str:
    """Returns the user's name, or uidN if it is not known."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # ImportError: on Windows without a name in the environment
        return f"uid{user_id()}"


def user_id() -> int:
    """Returns the user id, or 0 on Windows, which has none."""
    return os.getuid() if hasattr(os, "getuid") else 0


def home() -> Path:
    """Returns the user's home folder or, if there is none, a folder for this user id in the temporary folder."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"qverify-{user_id()}"


def cache_folder() -> Path:
    """Returns qverify's cache folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "qverify"
