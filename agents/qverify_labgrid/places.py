"""Places of a labgrid coordinator: found by name or tags, reserved, acquired under an identity of our own, released."""

from __future__ import annotations

import asyncio
import os
import time
from difflib import get_close_matches
from typing import Any

import grpc
from labgrid.remote.client import ClientSession
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.util.proxy import proxymanager

PORT = 20408
CALL_S = 12.0  # the coordinator waits up to 10 s for an exporter
POLL_S = 0.2
AVAILABLE_S = 5.0  # until what an exporter starts for an acquired place is there
SHOWN = 8  # names in a message
ALLOCATED = 1  # state of a reservation, in labgrid's numbers; 0 is waiting


class Refused(Exception):
    """A place cannot be used. kind: address (none fits), busy (another holds it) or unreachable."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Places:
    """A session with the coordinator. identity: HOST/USER, by which it knows this process."""

    def __init__(self, session: Any, where: str, identity: str, own: str, ended: asyncio.Event):
        self._session, self._where, self.identity, self._own, self._ended = session, where, identity, own, ended
        self._tokens: list[str] = []
        self._asked: set[str] = set()  # places that may be acquired by us

    @classmethod
    async def connected(cls, coordinator: str, user: str, ended: asyncio.Event, seconds: float) -> Places:
        """Returns a session whose places and resources are known. Raises Refused where no coordinator answers."""
        refused = Refused(
            "unreachable",
            f"no labgrid coordinator answers at {coordinator}. Next: LG_COORDINATOR=HOST:PORT, or ?coordinator=HOST:PORT",
        )
        try:
            address = proxymanager.get_grpc_address(coordinator, default_port=PORT)
            session = ClientSession(address, asyncio.get_running_loop())
            own = f"{session.gethostname()}/{session.getuser()}"
            os.environ["LG_USERNAME"] = user
            identity = f"{session.gethostname()}/{user}"
            start = asyncio.ensure_future(session.start())
            await asyncio.wait(
                {start, asyncio.ensure_future(ended.wait())}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not start.done():
                raise refused
            start.result()
        except Exception as error:  # labgrid's own, of gRPC, of the name's resolution
            raise refused from error
        return cls(session, coordinator, identity, own, ended)

    async def take(self, name: str, tags: dict[str, str], classes: list[str], wait_s: float) -> dict[str, Any] | None:
        """Acquires the place of this name, or one with these tags, that has a resource of one of these classes; waits
        at most wait_s seconds for it. Returns None if the input ends meanwhile. Raises Refused."""
        end = time.monotonic() + wait_s
        failed: dict[str, str] = {}
        while not self._ended.is_set():
            fitting = self._fitting(name, tags)
            if name and fitting[0].acquired == self._own:
                return await self._lent(fitting[0], classes)
            failed |= {p.name: lack for p in fitting if p.name not in failed and (lack := self._lack(p, classes))}
            if all(p.name in failed for p in fitting):
                raise Refused("unreachable", "; ".join(f"{p.name}: {failed[p.name]}" for p in fitting[:SHOWN]))
            allocated = await self._reserve({"name": fitting[0].name} if name else tags, end)
            if allocated is None:
                raise Refused("busy", self._users(fitting, failed))
            if allocated and allocated not in failed:
                why = await self._acquire(allocated, classes)
                if not why:
                    await (
                        self._cancel_all()
                    )  # before the release: the place then is the next one's at once, not 15 s later
                    return self._described(allocated)
                failed[allocated] = why  # its reservation is kept meanwhile: the next one is of another place
        return None

    async def _lent(self, place: Any, classes: list[str]) -> dict[str, Any]:
        """Returns a place that this user has acquired with labgrid's own tools: it is used, and stays acquired."""
        lack = self._lack(place, classes)
        if lack:
            raise Refused("unreachable", f"{place.name}: {lack}")
        return {**self._described(place.name), "identity": self._own, "own": False}

    def _fitting(self, name: str, tags: dict[str, str]) -> list[Any]:
        """Returns the places that were asked for. Raises Refused where there is none."""
        places = self._session.places
        if name:
            found = [p for p in places.values() if p.name == name] or [p for p in places.values() if name in p.aliases]
            if found:
                return found[:1]
            near = get_close_matches(name, places, 3)
            what = f"no place {name!r} at {self._where}"
            raise Refused(
                "address", f"{what}; did you mean {', '.join(near)}?" if near else f"{what}; {_listed(list(places))}"
            )
        fitting = [p for _, p in sorted(places.items()) if all(p.tags.get(k) == v for k, v in tags.items())]
        if not fitting:
            known = sorted({f"{k}={v}" for p in places.values() for k, v in p.tags.items()})
            wanted = ",".join(f"{k}={v}" for k, v in tags.items())
            raise Refused(
                "address", f"no place with {wanted} at {self._where}; known tags: {', '.join(known[:64]) or 'none'}"
            )
        return fitting

    def _resources(self, place: Any) -> list[tuple[str, Any]]:
        """Returns names and entries of the resources that belong to a place, as far as their exporters are connected."""
        found = []
        for exporter, groups in sorted(self._session.resources.items()):
            for group, entries in sorted(groups.items()):
                for name, entry in sorted(entries.items()):
                    if "cls" in entry.data and place.hasmatch((exporter, group, entry.cls, name)):
                        match = place.getmatch((exporter, group, entry.cls, name))
                        found.append((match.rename or name, entry))
        return found

    def _lack(self, place: Any, classes: list[str]) -> str:
        """Returns why a place is of no use, "" if it has a resource of one of these classes."""
        there = sorted({entry.cls for _, entry in self._resources(place)})
        if any(name in classes for name in there):
            return ""
        if not there:
            matches = ", ".join(str(match) for match in place.matches[:SHOWN]) or "it has no match"
            return f"its exporter is not connected ({matches})"
        return f"it has no {' or '.join(classes)}, only {', '.join(there)}"

    async def _reserve(self, filters: dict[str, str], end: float) -> str | None:
        """Reserves a place; returns its name, None if there is none until then, "" if the input ends meanwhile."""
        wanted = messages.Reservation.Filter(filter=filters)
        made = await self._call(
            "CreateReservation", messages.CreateReservationRequest(filters={"main": wanted}, prio=0.0)
        )
        self._tokens.append(made.reservation.token)
        found = made.reservation
        while found.state != ALLOCATED:
            if self._ended.is_set():
                return ""
            if found.state or time.monotonic() >= end:  # expired, or invalid as the place was deleted
                return None
            await self._sleep(min(POLL_S, max(0.0, end - time.monotonic())))
            for token in self._tokens:  # a reservation ends after a minute in which nobody asks for it
                found = (await self._call("PollReservation", messages.PollReservationRequest(token=token))).reservation
        return str(found.allocations["main"])

    async def _acquire(self, name: str, classes: list[str]) -> str:
        """Acquires a reserved place. Returns why that failed, "" if it is ours and what it is wanted for is available."""
        self._asked.add(name)
        try:
            await self._session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=name), timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            return str(error.details())
        end = time.monotonic() + AVAILABLE_S
        while (lack := self._unavailable(name, classes)) != "" and time.monotonic() < end:
            await self._sleep(POLL_S / 4)
        if lack:
            await self._give_back(name)
        return lack

    def _unavailable(self, name: str, classes: list[str]) -> str:
        place = self._session.places.get(name)
        if place is None or place.acquired != self.identity:
            return "the coordinator does not say that it is acquired"
        there = [entry for _, entry in self._resources(place) if entry.cls in classes]
        if not there:
            return self._lack(place, classes)
        return "" if any(entry.avail for entry in there) else f"its {there[0].cls} is not available"

    def _described(self, name: str) -> dict[str, Any]:
        place = self._session.places[name]
        resources = [
            {"name": n, "cls": e.cls, "params": {k: v for k, v in e.args.items() if k != "password"}, "extra": e.extra}
            for n, e in self._resources(place)
            if e.avail
        ]
        return {"held": name, "identity": self.identity, "own": True, "resources": resources}

    def _users(self, places: list[Any], failed: dict[str, str]) -> str:
        """Returns who uses these places."""
        lines = []
        for place in places[:SHOWN]:
            if place.acquired:
                since = max(0.0, time.time() - place.changed)
                lines.append(f"{place.name} is held by {place.acquired} since {since:.0f} s ago")
            else:
                lines.append(f"{place.name}: {failed.get(place.name, 'reserved for another')}")
        return "; ".join(lines)

    async def release(self) -> bool:
        """Releases what we acquired and cancels our reservations. Returns whether the coordinator says that this is done."""
        done = True
        for name in sorted(self._asked):
            done = await self._give_back(name) and done
        await self._cancel_all()
        return done

    async def _cancel_all(self) -> None:
        while self._tokens:
            await self._cancel(self._tokens.pop())

    async def release_of(self, identity: str) -> list[str]:
        """Releases everything of another identity; returns the places. Raises Refused where the coordinator does not."""
        names = [place.name for place in self._session.places.values() if place.acquired == identity]
        for name in names:
            await self._call("ReleasePlace", messages.ReleasePlaceRequest(placename=name, fromuser=identity))
        for one in (await self._call("GetReservations", messages.GetReservationsRequest())).reservations:
            if one.owner == identity:
                await self._cancel(one.token)
        return names

    async def close(self) -> None:
        await self._session.stop()
        await self._session.close()

    async def _give_back(self, name: str) -> bool:
        """Releases a place, only if we hold it: a coordinator that was started anew may have given it to another."""
        request = messages.ReleasePlaceRequest(placename=name, fromuser=self.identity)
        try:
            await self._session.stub.ReleasePlace(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            return bool(error.code() == grpc.StatusCode.INVALID_ARGUMENT)  # the place was deleted
        self._asked = self._asked - {name}
        return True

    async def _cancel(self, token: str) -> None:
        try:
            await self._session.stub.CancelReservation(messages.CancelReservationRequest(token=token), timeout=CALL_S)
        except grpc.aio.AioRpcError:
            pass  # it has expired, or does so in a minute

    async def _call(self, name: str, request: Any) -> Any:
        try:
            return await getattr(self._session.stub, name)(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise Refused(
                "unreachable", f"the coordinator at {self._where} refused {name}: {error.details()}"
            ) from error

    async def _sleep(self, seconds: float) -> None:
        """Sleeps, at most until the input ends."""
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({ended}, timeout=seconds)
        ended.cancel()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"places: {', '.join(sorted(names)[:SHOWN])}{more}" if names else "it has no places"
