"""Name and folders of the current user, also for a uid without a passwd entry."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path


def user_name() -> str:
    """Returns the user's name, or uidN."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # ImportError: Windows, with no name in the environment
        return f"uid{user_id()}"


def user_id() -> int:
    """Returns the user's number; 0 on Windows, which has none."""
    return os.getuid() if hasattr(os, "getuid") else 0


def home() -> Path:
    """Returns the user's home folder, or a folder for this uid in the temporary folder."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"qverify-{user_id()}"


def cache_folder() -> Path:
    """Returns qverify's cache folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "qverify"
