"""Lists of files: a line a file, `#` for comments, paths relative to the list."""

from __future__ import annotations

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular

MOST_TEXT = 1 << 26


def is_list(path: str) -> bool:
    return path.lower().endswith(".txt")


def lines(path: str) -> list[str]:
    """UsageError for what is no list."""
    try:
        text = read_regular(path, MOST_TEXT, follow=True).decode("utf-8-sig")
    except (BadFileError, UnicodeDecodeError) as error:
        raise UsageError(
            f"not a readable list: {error}" if path in str(error) else f"{path}: not a readable list: {error}"
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
