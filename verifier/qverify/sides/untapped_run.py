"""Runs a model on a board of another runtime without taps: its final outputs alone are read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from qverify_agents.errors import AgentError, Contradiction, ProtocolError

from qverify.plural import count
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Untapped

if TYPE_CHECKING:
    from qverify_agents.protocol.client import Agent

NOT_RUN = "the unchanged model did not run there"
UNFIT = "the unchanged model ran there, but"


@dataclass(frozen=True, slots=True)
class OutputType:
    """Type and shape of an output. bounded: the axis that may be shorter than its dim, None without one."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bounded: int | None = None


class Misfit(Exception):
    """Raised for an output that is not a tensor of the graph."""


def run_untapped(compute: Callable[[], dict[str, Array]]) -> Untapped:
    """Returns the outputs that `compute` returns, or why there are none. Raises LinkError if the link fails or the board
    contradicts itself."""
    try:
        return Untapped(compute())
    except Contradiction:
        raise
    except Misfit as error:
        return Untapped(why=f"{UNFIT} {error}")
    except (AgentError, ProtocolError) as error:
        return Untapped(why=f"{NOT_RUN}: {error}")


def put_session(agent: Agent, model: str, **settings: Any) -> str:
    """Sends settings under which a model that was sent is to run (agents/PROTOCOL.md). Returns their content hash, which
    stands for that model. model: its content hash."""
    content = json.dumps({"model": model, **settings}).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    agent.put(sha256, content)
    return sha256


def run_finals(
    agent: Agent,
    model: str,
    inputs: Iterable[bytes],
    outputs: Mapping[str, OutputType],
    has_digests: bool,
) -> dict[str, Array]:
    """Runs a model that was sent, and returns these outputs. model: its content hash. inputs: their bytes, in the
    model's order. outputs: their types by name. has_digests: whether the board sends digests. Raises LinkError, and
    Misfit for an output of another size, or with other bytes than its digest states."""
    hashes = []
    for data in inputs:
        hashes.append(hashlib.sha256(data).hexdigest())
        agent.put(hashes[-1], data)
    names = list(outputs)
    reported = names if has_digests else []
    events = agent.run(model, hashes, nodes=reported, digests=has_digests, names=names, events=reported)
    digests = {e.tensor: e.digest for e in events}
    return {n: _fetch(agent, n, outputs[n], digests.get(n)) for n in names}


def _fetch(agent: Agent, name: str, wanted: OutputType, digest: str | None) -> Array:
    shape, size = [*wanted.shape], agent.size_of(name)
    whole = math.prod(shape) * wanted.dtype.itemsize
    if wanted.bounded is not None and 0 <= size < whole and size * shape[wanted.bounded] % whole == 0:
        shape[wanted.bounded] = size * shape[wanted.bounded] // whole
    elif size != whole:
        raise Misfit(f"its {name} has {count(size, 'byte')}, wanted {whole}")
    value: Array = np.frombuffer(agent.get(name, size), wanted.dtype).reshape(shape)
    if digest is not None and tensor_digest(value) != digest:
        raise Misfit(f"the bytes of its {name} do not match the digest that the board reported")
    return value
