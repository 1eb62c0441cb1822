"""Reads kernel bugs, which are edits of the runtime's source (kernel_bugs.tar.xz), and builds a runtime with each."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.kernel_bugs_archive import ARCHIVE, read_files

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "board_runtime"
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-I../include", "-I."]
FLAGS += ["-DQV_WITHOUT_PRODUCTS"]  # the bugs edit the kernels that run without blocked products


class DoesNotApply(Exception):
    """Raised if the text of an edit is not in the source exactly once, or the result does not compile."""


@dataclass(frozen=True, slots=True)
class KernelBug:
    """One bug, read from a file.

    truth: a description of what the kernel does wrong. edits: (file below src/, text, its replacement).
    """

    name: str
    truth: str
    edits: tuple[tuple[str, str, str], ...]

    @property
    def files(self) -> set[str]:
        """Returns the files that it edits, relative to src/."""
        return {file for file, _, _ in self.edits}


def read_bug(name: str, text: str) -> KernelBug:
    document = tomllib.loads(text)
    return KernelBug(name, document["truth"], tuple((e["file"], e["find"], e["replace"]) for e in document["edit"]))


def list_bugs(path: Path = ARCHIVE, only_set: str = "") -> list[KernelBug]:
    """Returns the bugs of an archive or a folder, of every set or of the one with this name, sorted by name."""
    named = ((PurePosixPath(name), text) for name, text in read_files(path).items())
    bugs = [
        read_bug(name.stem, text) for name, text in named if name.stem != "right" and only_set in ("", name.parts[0])
    ]
    return sorted(bugs, key=lambda bug: bug.name)


def edited(bug: KernelBug, source: Path) -> Iterator[tuple[Path, str]]:
    """Yields each edited file, relative to source, with its new text. Raises DoesNotApply."""
    texts: dict[str, str] = {}
    for file, find, replacement in bug.edits:
        text = texts.get(file, (source / file).read_text())
        if (times := text.count(find)) != 1:
            raise DoesNotApply(f"{bug.name}: {file}: the text to replace is there {times} times, wanted once")
        texts[file] = text.replace(find, replacement)
    for file, text in texts.items():
        yield Path(file), text


class Builder:
    """Builds runtimes in a folder. Files that a bug does not edit are compiled only once."""

    def __init__(self, folder: Path):
        self.source, self.objects = folder / "runtime" / "src", folder / "objects"
        shutil.copytree(RUNTIME / "src", self.source, ignore=shutil.ignore_patterns("faults"))
        shutil.copytree(RUNTIME / "include", folder / "runtime" / "include")
        self.objects.mkdir()
        self.healthy = folder / "healthy"
        self._compile(self.source, self._files(), self.objects)
        self._link(self.objects, self.healthy)

    def _files(self) -> list[Path]:
        return sorted(p.relative_to(self.source) for p in self.source.rglob("*.c"))

    def build(self, bug: KernelBug, folder: Path) -> Path:
        """Returns the runtime with the bug, made in this new folder. Raises DoesNotApply."""
        source, objects = folder / "runtime" / "src", folder / "objects"
        changed = list(edited(bug, self.source))
        shutil.copytree(self.source.parent, source.parent)
        shutil.copytree(self.objects, objects)
        for path, text in changed:
            (source / path).write_text(text)
        every = any(path.suffix == ".h" for path, _ in changed)
        self._compile(source, self._files() if every else [path for path, _ in changed], objects)
        self._link(objects, folder / "qvrt")
        shutil.rmtree(objects)
        return folder / "qvrt"

    def _compile(self, source: Path, files: list[Path], objects: Path) -> None:
        for path in files:
            target = objects / (path.as_posix().replace("/", "_") + ".o")
            self._run(["gcc", *FLAGS, "-c", str(path), "-o", str(target)], source)

    def _link(self, objects: Path, binary: Path) -> None:
        names = [str(p) for p in sorted(objects.glob("*.o"))]
        self._run(["gcc", "-static", "-s", *names, "-o", str(binary), "-lm"], objects)

    def _run(self, words: list[str], folder: Path) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise DoesNotApply("\n".join(done.stderr.splitlines()[:5]))
