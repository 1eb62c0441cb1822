"""Lists of files: one file per line, `#` for comments, paths relative to the list."""

from __future__ import annotations

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular

MOST_TEXT = 1 << 26


def is_list(path: str) -> bool:
    """Tells whether the path is that of a list, by its ending."""
    return path.lower().endswith(".txt")


def lines(path: str) -> list[str]:
    """Returns the lines of a list without comments. Raises UsageError for a file that is not a text."""
    try:
        text = read_regular(path, MOST_TEXT, follow=True).decode("utf-8-sig")
    except (BadFileError, UnicodeDecodeError) as error:
        raise UsageError(
            f"not a readable list: {error}" if path in str(error) else f"{path}: not a readable list: {error}"
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
