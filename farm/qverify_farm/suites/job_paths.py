"""Paths of a suite's files as its jobs see them: relative to the suite's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qverify.errors import UsageError
from qverify.session.inputs.file_lists import is_list, lines

MOST_FILES = 100_000
Wrong = Callable[[str], None]


@dataclass(slots=True)
class JobPaths:
    """folder: the suite's. What is outside of it is seen as outside/N/NAME, where N numbers the folders."""

    folder: Path
    _outside: dict[Path, int] = field(default_factory=dict)

    def of(self, path: Path) -> str:
        """Returns the path that a job sees. UsageError for a name that it could not have."""
        whole = Path(os.path.normpath(self.folder / path))
        try:
            seen = whole.relative_to(self.folder).as_posix()
        except ValueError:
            number = self._outside.setdefault(whole.parent, len(self._outside) + 1)
            seen = f"outside/{number}/{whole.name}"
        if any(c in seen for c in ",:\\\0") or len(seen) > 400:
            raise UsageError(
                f"{seen[:100]}: a path of a job has no comma, colon or backslash, and 400 characters at most"
            )
        return seen

    def absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.folder / text))


def inputs_of(text: str, paths: JobPaths) -> tuple[str, dict[str, Path]]:
    """Returns the text of -i as a job sees it, and its files by path. text: FILE, FOLDER, a list (.txt), or a comma list
    of FILE or NAME:FILE, relative to the suite's folder. UsageError for what is not there."""
    files: dict[str, Path] = {}
    parts = [_one_part(part, paths, files) for part in text.split(",")]
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files)} files; a job has at most {MOST_FILES}")
    return ",".join(parts), files


def _one_part(part: str, paths: JobPaths, files: dict[str, Path]) -> str:
    for at in (-1, *(m.start() for m in re.finditer(":", part))):
        path = paths.absolute(part[at + 1 :])
        if part[at + 1 :] and path.exists():
            return part[: at + 1] + _add(path, paths, files)
    raise UsageError(f"{part}: no such file or folder in {paths.folder}")


def _add(path: Path, paths: JobPaths, files: dict[str, Path]) -> str:
    seen = paths.of(path)
    if path.is_dir():
        found = [one for one in sorted(path.iterdir()) if one.is_file() and not one.name.startswith(".")]
        if not found:
            raise UsageError(f"{path}: the folder contains no files")
        files |= {f"{seen}/{_plain(one.name)}": one for one in found}
    elif not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    else:
        files[seen] = path
        if is_list(str(path)):
            _add_listed(path, seen, files)
    return seen


def _plain(name: str) -> str:
    if any(c in name for c in ",:\\\0"):
        raise UsageError(f"{name[:100]}: a file of a job has no comma, colon or backslash in its name")
    return name


def _add_listed(path: Path, seen: str, files: dict[str, Path]) -> None:
    """Adds what a list of frames names, which a job sees beside the list as it is here."""
    here = os.path.dirname(seen)
    for line in lines(str(path)):
        for part in line.split(","):
            name = part if (path.parent / part).exists() else part.rpartition(":")[2]
            inside = os.path.normpath(os.path.join(here, name)).replace(os.sep, "/")
            if os.path.isabs(name) or inside.startswith("..") or (here and not inside.startswith(f"{here}/")):
                raise UsageError(f"{path}: {name[:100]} is outside of the list's folder; put the list above its files")
            if not (path.parent / name).is_file():
                raise UsageError(f"{path}: it names {name[:100]}, which is no file")
            files[inside] = path.parent / name
