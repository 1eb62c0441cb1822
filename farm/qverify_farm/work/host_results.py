"""The results of the reference and the simulator on this host's disk. They are computed once for the same models, inputs and
settings, and used by the jobs of all boards."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
import shutil
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from qverify import __version__
from qverify.errors import QVerifyError
from qverify.model_bin.graph import Graph
from qverify.session.host_sides import SideResults
from qverify.tensors.digest import tensor_digest
from qverify.tensors.placement import Placement
from qverify.tensors.recording import Array, Recording, Untapped
from qverify.tensors.spec import TensorSpec
from qverify_agents.file_lock import LOCK_FLAGS, lock_file

from qverify_farm.work.file_cache import sweep

DEFAULT_LIMIT_BYTES = 10 << 30
MAX_OPEN_RESULTS = 256  # number of results whose files stay open
KEEP_S = 3600.0  # a result that was used within this time is not removed
ALIGNMENT = 64
FORMAT = 2
COPIED_FIELDS = (
    "side",
    "engine",
    "version",
    "settings",
    "host",
    "duration_s",
    "state",
    "why",
    "model_sha256",
    "inputs_sha256",
    "digests",
    "missing",
    "notes",
    "runtime",
    "kernels",
    "containers",
    "is_engine",
    "ledger",
)


class HostResultDamaged(QVerifyError):
    """The values of a stored result changed on the disk after they were checked. The exit status is 3, since nothing is known
    about the board."""

    exit_status = 3


class StoredValues:
    """The file with the values of a result. Its bytes are checked whenever they are read, since they may change on the disk.

    Attributes:
        path: The path of the file.
        damaged: Whether bytes were read that are not those that were written.
    """

    def __init__(self, path: Path):
        self.path, self.damaged = path, False
        self._file, self._lock = open(path, "rb", buffering=0), threading.Lock()  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def read(self, offset: int, dtype: str, shape: list[int], digest: str) -> Array:
        """Returns a tensor. Raises HostResultDamaged if its bytes do not have the digest."""
        array = np.zeros(shape, np.dtype(dtype))
        data = array.reshape(-1).view(np.uint8)
        size = 0
        with self._lock:
            self._file.seek(offset)
            while size < data.nbytes and (added := self._file.readinto(data[size:].data)):
                size += added
        if size != data.nbytes or tensor_digest(array) != digest:
            self.damaged = True
            raise HostResultDamaged("the results of the reference and the simulator changed in this host's cache")
        array.flags.writeable = False
        return array

    def is_at_path(self) -> bool:
        """Returns whether the open file is still the one at the path."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False


class StoredTensors(Mapping[str, Array]):
    """The tensors of a recording, which are read from the disk and checked whenever they are used. The last one is kept."""

    def __init__(self, values: StoredValues, places: Mapping[str, list[Any]]):
        """places: the arguments of StoredValues.read, by tensor."""
        self._values, self._places = values, places
        self._last: tuple[str, Array] | None = None

    def __getitem__(self, name: str) -> Array:
        last = self._last
        if last is None or last[0] != name:
            self._last = last = name, self._values.read(*self._places[name])
        return last[1]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def fresh(self) -> StoredTensors:
        """Returns the same tensors for another job."""
        return StoredTensors(self._values, self._places)


@dataclass(frozen=True, slots=True)
class HostResult:
    """The results of the host's sides on one set of inputs.

    Attributes:
        values: The file with the values of the recordings.
        recordings: The recordings, by side. Their tensors are StoredTensors.
        plain: SideResults.plain.
        canary: SideResults.canary.
    """

    values: StoredValues
    recordings: dict[str, Recording]
    plain: list[dict[str, Any]]
    canary: dict[str, Any]

    def fresh(self) -> SideResults:
        """Returns a copy for one job, which may add to it."""
        recordings = {
            side: replace(
                r,
                settings=dict(r.settings),
                missing=dict(r.missing),
                notes=list(r.notes),
                link={},
                pulled={},
                tensors=r.tensors.fresh() if isinstance(r.tensors, StoredTensors) else r.tensors,
            )
            for side, r in self.recordings.items()
        }
        return SideResults(recordings, {}, [dict(row) for row in self.plain], dict(self.canary))


def result_key(*parts: Any) -> str:
    """Returns the key of a result that depends on these parts, which JSON can express, and on the versions of the software."""
    return hashlib.sha256(json.dumps([FORMAT, *parts, *_software_versions()]).encode()).hexdigest()


@cache
def _software_versions() -> tuple[str, ...]:
    return (__version__, version("onnxruntime"), np.__version__, platform.machine())


class HostResults:
    """A folder with results by key, which several processes may share. It has at most limit_bytes; the least recently used
    results are removed first, but none that was used in the last hour."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES):
        self.folder, self._limit = folder.absolute(), limit_bytes
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._open: OrderedDict[str, HostResult] = OrderedDict()
        self._lock, self._since_sweep = threading.Lock(), limit_bytes  # the first result sweeps

    def path(self, key: str) -> Path:
        """Returns the folder of a result, which may not exist."""
        return self.folder / key[:2] / key

    def get(self, key: str, graph: Graph) -> HostResult | None:
        """Returns a result, or None if there is none. Its values stay on the disk. A damaged result is removed."""
        with self._lock:
            if (result := self._open.get(key)) is not None:
                self._open.move_to_end(key)
                return result
        folder = self.path(key)
        if not folder.is_dir():
            return None
        try:
            result = _read(folder, graph)
            os.utime(folder)
        except (OSError, ValueError, LookupError, TypeError, HostResultDamaged):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with self._lock:
            self._open[key] = result
            while len(self._open) > MAX_OPEN_RESULTS:
                self._open.popitem(last=False)
        return result

    def discard(self, key: str, result: HostResult) -> None:
        """Removes a result, so that it is computed again, unless another is stored under its key by now."""
        with self._lock:
            if self._open.get(key) is result:
                del self._open[key]
        if result.values.is_at_path():
            shutil.rmtree(self.path(key), ignore_errors=True)

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Holds a file lock, so that no other process of this host computes the same result."""
        descriptor = os.open(self.folder / f"{key[:2]}.lock", LOCK_FLAGS, 0o600)
        try:
            lock_file(descriptor, wait=True)
            yield
        finally:
            os.close(descriptor)

    def put(self, key: str, results: SideResults) -> None:
        """Stores a result completely or not at all. A result that is already stored is not replaced."""
        target = self.path(key)
        target.parent.mkdir(exist_ok=True)
        partial = target.with_name(f".part-{secrets.token_hex(8)}")
        partial.mkdir(mode=0o700)
        try:
            self._since_sweep += _write(partial, results)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        if self._since_sweep >= self._limit // 20:
            self._since_sweep = 0
            sweep(self.folder, "*/*", self._limit, time.time() - KEEP_S)


def _write(folder: Path, results: SideResults) -> int:
    """Writes the files of a result and returns their size in bytes. Equal tensors are stored once."""
    sides, places, offset = {}, dict[str, list[Any]](), 0
    with open(folder / "values.bin", "wb") as file:

        def keep(tensors: Mapping[str, Array], digests: Mapping[str, str]) -> dict[str, str]:
            """Writes the tensors, each once. Returns the key of each one's place by its name."""
            nonlocal offset
            keys = {}
            for name, value in tensors.items():
                dense = np.ascontiguousarray(value)
                digest = digests.get(name) or tensor_digest(dense)
                place_key = f"{digest} {dense.dtype.str} {list(dense.shape)}"
                if place_key not in places:
                    file.write(b"\0" * (-offset % ALIGNMENT))
                    offset += -offset % ALIGNMENT
                    file.write(dense.reshape(-1).view(np.uint8).data)
                    places[place_key] = [offset, dense.dtype.str, list(dense.shape), digest]
                    offset += dense.nbytes
                keys[name] = place_key
            return keys

        for label, recording in results.recordings.items():
            untapped = recording.untapped
            sides[label] = {
                **{field: getattr(recording, field) for field in COPIED_FIELDS},
                "specs": {n: asdict(spec) if recording.is_engine else None for n, spec in recording.specs.items()},
                "finals": list(recording.finals),
                "capabilities": sorted(recording.capabilities),
                "placement": [asdict(placed) for placed in recording.placement],
                "untapped": None
                if untapped is None
                else {**asdict(replace(untapped, tensors={})), "tensors": keep(untapped.tensors, {})},
                "tensors": keep(recording.tensors, recording.digests),
            }
    body = json.dumps(
        {"sides": sides, "places": places, "plain": results.plain, "canary": results.canary}, default=_plain
    )
    (folder / "results.json").write_text(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")
    return offset + len(body)


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value) if not isinstance(value, tuple) else list(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} in the results of the host's sides")


def _read(folder: Path, graph: Graph) -> HostResult:
    """Reads the result in a folder. Raises ValueError or HostResultDamaged if its bytes are not those that were
    written."""
    digest, _, body = (folder / "results.json").read_text(encoding="utf-8").partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("results.json is damaged")
    content = json.loads(body)
    values = StoredValues(folder / "values.bin")
    for place in content["places"].values():
        values.read(*place)
    sides = {label: _recording(row, values, content["places"], graph) for label, row in content["sides"].items()}
    return HostResult(values, sides, content["plain"], content["canary"])


def _recording(
    row: Mapping[str, Any], values: StoredValues, places: Mapping[str, list[Any]], graph: Graph
) -> Recording:
    def stored(keys: Mapping[str, str]) -> StoredTensors:
        return StoredTensors(values, {name: places[place_key] for name, place_key in keys.items()})

    untapped = row["untapped"]
    return Recording(
        **{field: row[field] for field in COPIED_FIELDS},
        specs={name: _spec(name, stated, graph) for name, stated in row["specs"].items()},
        finals=tuple(row["finals"]),
        tensors=stored(row["tensors"]),
        capabilities=frozenset(row["capabilities"]),
        placement=tuple(Placement(**placed) for placed in row["placement"]),
        untapped=None
        if untapped is None
        else Untapped(**_tuples({**untapped, "tensors": dict(stored(untapped["tensors"]))})),
    )


def _spec(name: str, stated: Mapping[str, Any] | None, graph: Graph) -> TensorSpec:
    """Returns the spec of a tensor: as an engine stated it, or that of the graph."""
    return graph.spec(name) if stated is None else TensorSpec(**_tuples(stated))


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with tuples in place of lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
