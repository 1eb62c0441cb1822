"""One side's tensors as the comparison sees them: held, or pulled once and checked against their digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qverify.compare.paired_values import bits_equal
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording

Pull = Callable[[list[str]], Mapping[str, Array]]


class Values:
    """recording: the side. pull: asks the side for tensors it has not sent. failed: tensor to why it cannot be had."""

    def __init__(self, recording: Recording, pull: Pull | None = None):
        self.recording, self.pull = recording, pull
        self.pulled: dict[str, Array] = {}
        self.peers: list[Recording] = []  # other sides: what has the same digest there need not be pulled
        self.failed: dict[str, str] = dict(recording.missing)

    def digest(self, name: str) -> str | None:
        return self.recording.digests.get(name)

    def sent(self, name: str) -> bool:
        """Whether the side itself gave the bytes."""
        recording = self.recording
        return name in self.pulled or (name in recording.tensors and name not in recording.borrowed)

    def fetch(self, names: list[str]) -> None:
        """Pulls what is not held, in one request."""
        wanted = [n for n in dict.fromkeys(names) if n not in self.failed and self.held(n) is None]
        if not wanted:
            return
        if self.pull is None:
            self.failed.update(dict.fromkeys(wanted, "declared, but it did not come"))
            return
        try:
            came = self.pull(wanted)
        except Exception as error:  # the handed-in function speaks of links, which this room does not know
            if not hasattr(error, "exit_status"):
                raise
            came = getattr(error, "came", {})  # what is whole of them
            broken = getattr(error, "broken", {})
            self.failed |= {n: f"could not be pulled: {broken.get(n, error)}" for n in wanted if n not in came}
        for name in wanted:
            if name not in self.failed:
                self._accept(name, came.get(name))

    def _accept(self, name: str, value: Array | None) -> None:
        if value is None:
            self.failed[name] = "declared, but it did not come when pulled"
        elif (said := self.digest(name)) is not None and (got := tensor_digest(value)) != said:
            self.failed[name] = f"the bytes that came have digest {got}, the side had said {said}"
        else:
            self.pulled[name] = value

    def get(self, name: str) -> Array | None:
        """The valid elements, or None (why: failed[name])."""
        self.fetch([name])
        return self.held(name)

    def held(self, name: str) -> Array | None:
        """As get, without asking the side."""
        if name in self.failed:
            return None
        if name in self.recording.tensors:
            return self.recording.tensors[name]
        return self.pulled[name] if name in self.pulled else self._from_peer(name)

    def _from_peer(self, name: str) -> Array | None:
        """The same bytes on another side, told by the digest."""
        digest, spec = self.digest(name), self.recording.specs.get(name)
        for peer in self.peers if digest is not None and spec is not None else ():
            if peer.digests.get(name) == digest and name in peer.tensors:
                value = peer.tensors[name]
                if (value.shape, value.dtype) == (spec.shape, spec.numpy_dtype):  # type: ignore[union-attr]
                    return value
        return None


def same_bytes(a: Values, b: Values, name_a: str, name_b: str) -> bool | None:
    """Whether the bytes are the same: by digest, else by value; None when that cannot be known."""
    left, right = a.digest(name_a), b.digest(name_b)
    if left is not None and right is not None:
        return left == right
    one, two = a.get(name_a), b.get(name_b)
    return None if one is None or two is None else bits_equal(one, two)
