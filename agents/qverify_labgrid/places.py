"""Finds places of a labgrid coordinator by name or tags, reserves, acquires and releases them, under an identity of its
own."""

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
CALL_S = 12.0  # seconds for one call: the coordinator waits up to 10 s for an exporter
POLL_S = 0.2  # seconds between two polls
AVAILABLE_S = 5.0  # seconds until the services that an exporter starts for an acquired place must be available
MAX_SHOWN = 8  # names in a message
ALLOCATED = 1  # state of a reservation in labgrid's protocol; 0 means waiting


class Refused(Exception):
    """Raised if a place cannot be used. kind: "address" (there is no such place), "busy" (somebody else holds it) or
    "unreachable"."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class Places:
    """A session with the coordinator. identity: HOST/USER, the name under which the coordinator knows this process."""

    def __init__(self, session: Any, where: str, identity: str, user_identity: str, ended: asyncio.Event):
        self._session, self._where, self._ended = session, where, ended
        self.identity, self._user_identity = identity, user_identity
        self._tokens: list[str] = []
        self._maybe_acquired: set[str] = set()  # names of the places that this process may have acquired

    @classmethod
    async def connect(cls, coordinator: str, user: str, ended: asyncio.Event, seconds: float) -> Places:
        """Connects to a coordinator and returns a session that knows its places and resources. Raises Refused if no
        coordinator answers within so many seconds."""
        refused = Refused(
            "unreachable",
            f"no labgrid coordinator answers at {coordinator}. Next: LG_COORDINATOR=HOST:PORT, or ?coordinator=HOST:PORT",
        )
        try:
            address = proxymanager.get_grpc_address(coordinator, default_port=PORT)
            session = ClientSession(address, asyncio.get_running_loop())
            user_identity = f"{session.gethostname()}/{session.getuser()}"
            os.environ["LG_USERNAME"] = user
            identity = f"{session.gethostname()}/{user}"
            start = asyncio.ensure_future(session.start())
            await asyncio.wait(
                {start, asyncio.ensure_future(ended.wait())}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not start.done():
                raise refused
            start.result()
        except Exception as error:  # errors of labgrid, of gRPC or of the name's resolution
            raise refused from error
        return cls(session, coordinator, identity, user_identity, ended)

    async def take(self, name: str, tags: dict[str, str], classes: list[str], wait_s: float) -> dict[str, Any] | None:
        """Acquires the place of this name, or else one with these tags, that has a resource of one of these classes,
        and returns its description. Waits at most wait_s seconds for it. Returns None if the input ends meanwhile.
        Raises Refused."""
        give_up_at = time.monotonic() + wait_s
        failures: dict[str, str] = {}
        while not self._ended.is_set():
            candidates = self._find_places(name, tags)
            if name and candidates[0].acquired == self._user_identity:
                return await self._borrow(candidates[0], classes)
            failures |= {
                p.name: reason
                for p in candidates
                if p.name not in failures and (reason := self._explain_unfit(p, classes))
            }
            if all(p.name in failures for p in candidates):
                raise Refused("unreachable", "; ".join(f"{p.name}: {failures[p.name]}" for p in candidates[:MAX_SHOWN]))
            allocated = await self._reserve({"name": candidates[0].name} if name else tags, give_up_at)
            if allocated is None:
                raise Refused("busy", self._describe_users(candidates, failures))
            if allocated and allocated not in failures:
                reason = await self._acquire(allocated, classes)
                if not reason:
                    # Before the place is released: it is then free for the next user at once, not 15 s later.
                    await self._cancel_all()
                    return self._describe(allocated)
                failures[allocated] = reason  # its reservation is kept, so that the next one is for another place
        return None

    async def _borrow(self, place: Any, classes: list[str]) -> dict[str, Any]:
        """Returns the description of a place that this user has acquired with labgrid's own tools. It is used for the
        run and stays acquired afterwards."""
        reason = self._explain_unfit(place, classes)
        if reason:
            raise Refused("unreachable", f"{place.name}: {reason}")
        return {**self._describe(place.name), "identity": self._user_identity, "own": False}

    def _find_places(self, name: str, tags: dict[str, str]) -> list[Any]:
        """Returns the place of this name, or all places with these tags. Raises Refused if there is none."""
        places = self._session.places
        if name:
            named = [p for p in places.values() if p.name == name] or [p for p in places.values() if name in p.aliases]
            if named:
                return named[:1]
            similar = get_close_matches(name, places, 3)
            problem = f"no place {name!r} at {self._where}"
            raise Refused(
                "address",
                f"{problem}; did you mean {', '.join(similar)}?"
                if similar
                else f"{problem}; {_list_names(list(places))}",
            )
        tagged = [p for _, p in sorted(places.items()) if all(p.tags.get(k) == v for k, v in tags.items())]
        if not tagged:
            known_tags = sorted({f"{k}={v}" for p in places.values() for k, v in p.tags.items()})
            requested = ",".join(f"{k}={v}" for k, v in tags.items())
            raise Refused(
                "address",
                f"no place with {requested} at {self._where}; known tags: {', '.join(known_tags[:64]) or 'none'}",
            )
        return tagged

    def _resources(self, place: Any) -> list[tuple[str, Any]]:
        """Returns (name, entry) for each resource of a place whose exporter is connected."""
        resources = []
        for exporter, groups in sorted(self._session.resources.items()):
            for group, entries in sorted(groups.items()):
                for name, entry in sorted(entries.items()):
                    if "cls" in entry.data and place.hasmatch((exporter, group, entry.cls, name)):
                        match = place.getmatch((exporter, group, entry.cls, name))
                        resources.append((match.rename or name, entry))
        return resources

    def _explain_unfit(self, place: Any, classes: list[str]) -> str:
        """Returns the reason why a place cannot be used, or "" if it has a resource of one of these classes."""
        available = sorted({entry.cls for _, entry in self._resources(place)})
        if any(name in classes for name in available):
            return ""
        if not available:
            matches = ", ".join(str(match) for match in place.matches[:MAX_SHOWN]) or "it has no match"
            return f"its exporter is not connected ({matches})"
        return f"it has no {' or '.join(classes)}, only {', '.join(available)}"

    async def _reserve(self, filters: dict[str, str], give_up_at: float) -> str | None:
        """Reserves a place and returns its name; None if none is free before give_up_at, "" if the input ends
        meanwhile."""
        reservation_filter = messages.Reservation.Filter(filter=filters)
        answer = await self._call(
            "CreateReservation", messages.CreateReservationRequest(filters={"main": reservation_filter}, prio=0.0)
        )
        self._tokens.append(answer.reservation.token)
        reservation = answer.reservation
        while reservation.state != ALLOCATED:
            if self._ended.is_set():
                return ""
            if reservation.state or time.monotonic() >= give_up_at:  # expired, or invalid because the place was deleted
                return None
            await self._sleep(min(POLL_S, max(0.0, give_up_at - time.monotonic())))
            for token in self._tokens:  # a reservation that is not polled for a minute ends
                reservation = (
                    await self._call("PollReservation", messages.PollReservationRequest(token=token))
                ).reservation
        return str(reservation.allocations["main"])

    async def _acquire(self, name: str, classes: list[str]) -> str:
        """Acquires a reserved place. Returns "" if it is acquired and a resource of these classes is available,
        otherwise the reason of the failure."""
        self._maybe_acquired.add(name)
        try:
            await self._session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=name), timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            return str(error.details())
        end = time.monotonic() + AVAILABLE_S
        while (reason := self._explain_unavailable(name, classes)) != "" and time.monotonic() < end:
            await self._sleep(POLL_S / 4)
        if reason:
            await self._release_place(name)
        return reason

    def _explain_unavailable(self, name: str, classes: list[str]) -> str:
        """Returns the reason why an acquired place cannot be used yet, or ""."""
        place = self._session.places.get(name)
        if place is None or place.acquired != self.identity:
            return "the coordinator does not say that it is acquired"
        entries = [entry for _, entry in self._resources(place) if entry.cls in classes]
        if not entries:
            return self._explain_unfit(place, classes)
        return "" if any(entry.avail for entry in entries) else f"its {entries[0].cls} is not available"

    def _describe(self, name: str) -> dict[str, Any]:
        place = self._session.places[name]
        resources = [
            {"name": n, "cls": e.cls, "params": {k: v for k, v in e.args.items() if k != "password"}, "extra": e.extra}
            for n, e in self._resources(place)
            if e.avail
        ]
        return {"held": name, "identity": self.identity, "own": True, "resources": resources}

    def _describe_users(self, places: list[Any], failures: dict[str, str]) -> str:
        """Returns a text on who uses these places."""
        lines = []
        for place in places[:MAX_SHOWN]:
            if place.acquired:
                since = max(0.0, time.time() - place.changed)
                lines.append(f"{place.name} is held by {place.acquired} since {since:.0f} s ago")
            else:
                lines.append(f"{place.name}: {failures.get(place.name, 'reserved for another')}")
        return "; ".join(lines)

    async def release(self) -> bool:
        """Releases all acquired places and cancels all reservations. Returns whether the coordinator confirmed the
        releases."""
        done = True
        for name in sorted(self._maybe_acquired):
            done = await self._release_place(name) and done
        await self._cancel_all()
        return done

    async def _cancel_all(self) -> None:
        while self._tokens:
            await self._cancel(self._tokens.pop())

    async def release_all_of(self, identity: str) -> list[str]:
        """Releases all places and reservations of another identity and returns the names of the places. Raises Refused
        if the coordinator refuses it."""
        names = [place.name for place in self._session.places.values() if place.acquired == identity]
        for name in names:
            await self._call("ReleasePlace", messages.ReleasePlaceRequest(placename=name, fromuser=identity))
        for reservation in (await self._call("GetReservations", messages.GetReservationsRequest())).reservations:
            if reservation.owner == identity:
                await self._cancel(reservation.token)
        return names

    async def close(self) -> None:
        await self._session.stop()
        await self._session.close()

    async def _release_place(self, name: str) -> bool:
        """Releases a place only if this process holds it: a coordinator that was restarted may have given it to
        somebody else. Returns whether it is released."""
        request = messages.ReleasePlaceRequest(placename=name, fromuser=self.identity)
        try:
            await self._session.stub.ReleasePlace(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            return bool(error.code() == grpc.StatusCode.INVALID_ARGUMENT)  # the place was deleted
        self._maybe_acquired = self._maybe_acquired - {name}
        return True

    async def _cancel(self, token: str) -> None:
        try:
            await self._session.stub.CancelReservation(messages.CancelReservationRequest(token=token), timeout=CALL_S)
        except grpc.aio.AioRpcError:
            pass  # it has expired, or will in a minute

    async def _call(self, name: str, request: Any) -> Any:
        try:
            return await getattr(self._session.stub, name)(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise Refused(
                "unreachable", f"the coordinator at {self._where} refused {name}: {error.details()}"
            ) from error

    async def _sleep(self, seconds: float) -> None:
        """Sleeps so many seconds, or until the input ends."""
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({ended}, timeout=seconds)
        ended.cancel()


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return f"places: {', '.join(sorted(names)[:MAX_SHOWN])}{more}" if names else "it has no places"
