"""The folder in which the answers of a board are kept, so that learning goes on where it stopped
(verifier/ARITHMETICS.md, "Learning by experiment")."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Mapping

import numpy as np

from qverify.errors import BadFileError, UsageError
from qverify.files import parse_json, read_regular, write_bytes, write_text
from qverify.printable import printable
from qverify.tensors.recording import Array

FORMAT = 1
MAX_BYTES = 1 << 26  # of a file of the folder
ABOUT = "board.json"
_FILE = re.compile(r"[0-9a-f]{24}\..*|\.qverify-.*")  # of a model, or half-written


class ProbeStore:
    """The folder. path: its path; it is made when the first answer is kept."""

    def __init__(self, path: str, afresh: bool):
        """afresh: the answers that are there are not used. Raises BadFileError if the folder is none of these."""
        self.path = path
        self._about: dict[str, str] = {}
        self._keys: list[str] = []
        names = os.listdir(path) if os.path.isdir(path) else []
        if other := next((n for n in names if n != ABOUT and not _FILE.fullmatch(n)), ""):
            raise BadFileError(
                f"{path}: has {printable(other)}, so it is no folder of answers; give another -o, or remove it"
            )
        if ABOUT in names and not afresh:
            self._read_about()

    def _read_about(self) -> None:
        where = os.path.join(self.path, ABOUT)
        content = parse_json(read_regular(where, MAX_BYTES), where)
        content = content if isinstance(content, dict) else {}
        about, keys = content.get("board"), content.get("answers")
        is_valid = content.get("format") == FORMAT and isinstance(about, dict) and isinstance(keys, list)
        if not is_valid or not all(isinstance(k, str) and k.isalnum() for k in keys or ()):
            raise BadFileError(f"{where}: not of answers of probes, of format {FORMAT}; remove the folder {self.path}")
        self._about, self._keys = {str(k): str(v) for k, v in (about or {}).items()}, list(keys or ())

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the answers that are kept, in the order in which they were given."""
        return tuple(self._keys)

    def check(self, about: Mapping[str, str]) -> None:
        """Raises UsageError if the answers that are kept are of another board, firmware or toolchain. about: what the
        board and the user state of it."""
        for key in sorted({*about, *self._about}) if self._keys else ():
            if self._about.get(key) != about.get(key):
                raise UsageError(
                    f"{self.path}: its answers are of {key} {self._about.get(key, '')!r}, and the board is of {key} "
                    f"{about.get(key, '')!r}; give another -o, or --afresh to ask everything again"
                )

    def find(self, key: str) -> dict[str, Array] | None:
        """Returns the answer of this key, None if there is none. Raises BadFileError for a file that is damaged."""
        path = self.file(key, "npz")
        if key not in self._keys:
            return None
        try:
            with np.load(io.BytesIO(read_regular(path, MAX_BYTES)), allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise BadFileError(f"{path}: damaged ({error}); give --afresh to ask everything again") from error

    def keep(self, key: str, answer: Mapping[str, Array], about: Mapping[str, str]) -> None:
        """Keeps an answer. about: what the board states of itself."""
        buffer = io.BytesIO()
        arrays: dict[str, np.ndarray] = {name: np.asarray(value) for name, value in answer.items()}
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        write_bytes(buffer.getvalue(), self.file(key, "npz"))
        self._about = dict(about)
        self._keys = [*dict.fromkeys([*self._keys, key])]
        content = {"format": FORMAT, "board": self._about, "answers": self._keys}
        write_text(json.dumps(content, indent=1) + "\n", os.path.join(self.path, ABOUT))

    def file(self, key: str, ending: str) -> str:
        """Returns the path of a file of this key, in the folder, which is made if it is not there."""
        os.makedirs(self.path, exist_ok=True)
        return os.path.join(self.path, f"{key}.{ending}")
