"""Maps the paths of a suite's files to the paths at which its jobs see them, relative to the suite's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qverify.errors import UsageError
from qverify.session.inputs.file_lists import is_list, lines

MAX_FILES = 100_000
Wrong = Callable[[str], None]


@dataclass(slots=True)
class JobPaths:
    """The mapping for one suite. folder: the suite's folder. A file outside of it gets the path outside/N/NAME, where N is a
    number for its folder."""

    folder: Path
    _outside: dict[Path, int] = field(default_factory=dict)

    def of(self, path: Path) -> str:
        """Returns the job's path of a file. Raises UsageError for a path that a job cannot have."""
        whole = Path(os.path.normpath(self.folder / path))
        try:
            job_path = whole.relative_to(self.folder).as_posix()
        except ValueError:
            number = self._outside.setdefault(whole.parent, len(self._outside) + 1)
            job_path = f"outside/{number}/{whole.name}"
        if any(c in job_path for c in ",:\\\0") or len(job_path) > 400:
            raise UsageError(
                f"{job_path[:100]}: a path of a job has no comma, colon or backslash, and 400 characters at most"
            )
        return job_path

    def absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.folder / text))


def inputs_of(text: str, paths: JobPaths) -> tuple[str, dict[str, Path]]:
    """Returns the value of -i with the job's paths, and the files by these paths. text: FILE, FOLDER, a list of frames (.txt),
    or a comma list of FILE or NAME:FILE, relative to the suite's folder. Raises UsageError for a missing file."""
    files: dict[str, Path] = {}
    parts = [_parse_part(part, paths, files) for part in text.split(",")]
    if len(files) > MAX_FILES:
        raise UsageError(f"{len(files)} files; a job has at most {MAX_FILES}")
    return ",".join(parts), files


def _parse_part(part: str, paths: JobPaths, files: dict[str, Path]) -> str:
    for colon in (-1, *(m.start() for m in re.finditer(":", part))):
        path = paths.absolute(part[colon + 1 :])
        if part[colon + 1 :] and path.exists():
            return part[: colon + 1] + _add(path, paths, files)
    raise UsageError(f"{part}: no such file or folder in {paths.folder}")


def _add(path: Path, paths: JobPaths, files: dict[str, Path]) -> str:
    job_path = paths.of(path)
    if path.is_dir():
        entries = [entry for entry in sorted(path.iterdir()) if entry.is_file() and not entry.name.startswith(".")]
        if not entries:
            raise UsageError(f"{path}: the folder contains no files")
        files |= {f"{job_path}/{_check_name(entry.name)}": entry for entry in entries}
    elif not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    else:
        files[job_path] = path
        if is_list(str(path)):
            _add_listed(path, job_path, files)
    return job_path


def _check_name(name: str) -> str:
    if any(c in name for c in ",:\\\0"):
        raise UsageError(f"{name[:100]}: a file of a job has no comma, colon or backslash in its name")
    return name


def _add_listed(path: Path, job_path: str, files: dict[str, Path]) -> None:
    """Adds the files that a list of frames names. Relative to the list, a job sees them at the same paths as here."""
    list_folder = os.path.dirname(job_path)
    for line in lines(str(path)):
        for part in line.split(","):
            name = part if (path.parent / part).exists() else part.rpartition(":")[2]
            inside = os.path.normpath(os.path.join(list_folder, name)).replace(os.sep, "/")
            if (
                os.path.isabs(name)
                or inside.startswith("..")
                or (list_folder and not inside.startswith(f"{list_folder}/"))
            ):
                raise UsageError(f"{path}: {name[:100]} is outside of the list's folder; put the list above its files")
            if not (path.parent / name).is_file():
                raise UsageError(f"{path}: it names {name[:100]}, which is no file")
            files[inside] = path.parent / name
