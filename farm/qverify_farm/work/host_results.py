"""What the reference and the simulator gave, on this host's disk: computed once for the same models, inputs and settings, and
read by every board's job."""

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
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from qverify import __version__
from qverify.model_bin.graph import Graph
from qverify.session.host_sides import SideResults
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording

from qverify_farm.work.file_cache import sweep

LIMIT_BYTES = 10 << 30
MOST_MAPPED = 256  # results that stay mapped into memory
IN_USE_S = 3600.0  # what was used within this time is not removed
ALIGNED = 64
FORMAT = 1
KEPT = ("side", "engine", "version", "settings", "host", "duration_s", "state", "why", "model_sha256", "inputs_sha256")


@dataclass(frozen=True, slots=True)
class HostResult:
    """The results of the host's sides on one set of inputs. recordings: by side."""

    recordings: dict[str, Recording]
    plain: list[dict[str, Any]]
    canary: dict[str, Any]

    def fresh(self) -> SideResults:
        """Returns them for one job, which may add to them."""
        own = {
            side: replace(
                r, settings=dict(r.settings), missing=dict(r.missing), notes=list(r.notes), link={}, pulled={}
            )
            for side, r in self.recordings.items()
        }
        return SideResults(own, {}, [dict(row) for row in self.plain], dict(self.canary))


def result_key(models_key: str, inputs_sha256: str, run_sim: bool) -> str:
    """Returns the key of a result: it changes with everything that decides the result. inputs_sha256: of the prepared
    inputs."""
    decides = [FORMAT, models_key, inputs_sha256, run_sim, *_computed_by()]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()


@cache
def _computed_by() -> tuple[str, ...]:
    return (__version__, version("onnxruntime"), np.__version__, platform.machine())


class HostResults:
    """A folder with results by key, of any number of processes at once, at most limit_bytes of them; the least recently
    used are removed first, though none of the last hour."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES):
        self.folder, self._limit = folder.absolute(), limit_bytes
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._known: OrderedDict[str, HostResult] = OrderedDict()
        self._lock, self._since_sweep = threading.Lock(), limit_bytes  # the first result sweeps

    def path(self, key: str) -> Path:
        """Returns the folder of a result, which may not exist."""
        return self.folder / key[:2] / key

    def get(self, key: str, graph: Graph) -> HostResult | None:
        """Returns a result, with values mapped from the disk; None where there is none, or where it was damaged, which
        removes it."""
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        folder = self.path(key)
        if not folder.is_dir():
            return None
        try:
            found = _read(folder, graph)
            os.utime(folder)
        except (OSError, ValueError, LookupError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with self._lock:
            self._known[key] = found
            while len(self._known) > MOST_MAPPED:
                self._known.popitem(last=False)
        return found

    def put(self, key: str, ran: SideResults) -> None:
        """Stores a result whole or not at all; one that is there already stays."""
        target = self.path(key)
        target.parent.mkdir(exist_ok=True)
        part = target.with_name(f".part-{secrets.token_hex(8)}")
        part.mkdir(mode=0o700)
        try:
            self._since_sweep += _write(part, ran)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(part, target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        if self._since_sweep >= self._limit // 20:
            self._since_sweep = 0
            sweep(self.folder, "*/*", self._limit, time.time() - IN_USE_S)


def _write(folder: Path, ran: SideResults) -> int:
    """Writes the files of a result; returns their bytes."""
    sides, places, offset = {}, dict[str, list[Any]](), 0
    with open(folder / "values.bin", "wb") as file:
        for label, recording in ran.recordings.items():
            tensors = {}
            for name, value in recording.tensors.items():
                dense = np.ascontiguousarray(value)
                digest = recording.digests.get(name) or tensor_digest(dense)
                where = f"{digest} {dense.dtype.str} {list(dense.shape)}"
                if where not in places:
                    file.write(b"\0" * (-offset % ALIGNED))
                    offset += -offset % ALIGNED
                    file.write(dense.reshape(-1).view(np.uint8).data)
                    places[where] = [offset, dense.dtype.str, list(dense.shape), digest]
                    offset += dense.nbytes
                tensors[name] = where
            sides[label] = {
                **{field: getattr(recording, field) for field in KEPT},
                **{field: getattr(recording, field) for field in ("digests", "missing", "notes", "runtime")},
                "specs": list(recording.specs),
                "finals": list(recording.finals),
                "capabilities": sorted(recording.capabilities),
                "tensors": tensors,
            }
    body = json.dumps({"sides": sides, "places": places, "plain": ran.plain, "canary": ran.canary}, default=_plain)
    (folder / "results.json").write_text(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")
    return offset + len(body)


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value) if not isinstance(value, tuple) else list(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} in the results of the host's sides")


def _read(folder: Path, graph: Graph) -> HostResult:
    """Returns the result of a folder. ValueError where its bytes are not those that were written."""
    digest, _, body = (folder / "results.json").read_text(encoding="utf-8").partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("results.json is damaged")
    content = json.loads(body)
    size = (folder / "values.bin").stat().st_size
    values = np.memmap(folder / "values.bin", np.uint8, "r") if size else np.zeros(0, np.uint8)
    arrays = {where: _array(values, *place) for where, place in content["places"].items()}
    sides = {label: _recording(row, arrays, graph) for label, row in content["sides"].items()}
    return HostResult(sides, content["plain"], content["canary"])


def _array(values: Any, offset: int, dtype: str, shape: list[int], digest: str) -> Array:
    wanted = np.dtype(dtype)
    end = offset + int(np.prod(shape, dtype=np.int64)) * wanted.itemsize
    found: Array = np.asarray(values[offset:end]).view(wanted).reshape(shape)
    if tensor_digest(found) != digest:
        raise ValueError("values.bin is damaged")
    return found


def _recording(row: Mapping[str, Any], arrays: Mapping[str, Array], graph: Graph) -> Recording:
    tensors = {name: arrays[where] for name, where in row["tensors"].items()}
    return Recording(
        **{field: row[field] for field in (*KEPT, "digests", "missing", "notes", "runtime")},
        specs={name: graph.spec(name) for name in row["specs"]},
        finals=tuple(row["finals"]),
        tensors=tensors,
        capabilities=frozenset(row["capabilities"]),
    )
