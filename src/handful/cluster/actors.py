"""One task's pile over a Ray cluster: actors that each hold some of its rows, and exchange nothing but sums.

A pass is sent to all of them, and each sends back what its rows add up to, a few times [N, D]. An actor that dies,
with its machine or alone, costs its part of the pass under way: the others take its rows, read them from the files
and make that part again. When there is a place for it, a new actor takes them over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from handful.cluster.connection import connected
from handful.streaming.passes import Blocks, Pass, Sums, add, sums_of
from handful.streaming.pile import InMemory, Pile, Span
from handful.utils.threads import one_blas_thread

PER_ACTOR = 2  # spans under way, when each gives results of its own
SMALL = 64 << 10  # bytes that go with a call; through the store they take milliseconds more, but go once to a machine
HELD = 0.5  # of the memory that is free when an actor starts, it and its like on a machine may fill
PATIENCE = 600.0  # seconds without any actor, until a place for a new one is given up
T = TypeVar("T")


@dataclass(frozen=True)
class Actors:
    """An engine for `handful.solve`: the cluster at `address`, or this machine's cores if None.

    count: how many actors, one a CPU by default. hold: bytes of the pile that each keeps in memory, instead of reading
    its files again for every pass; by default what its machine has to spare. Files must be where every machine finds
    them; what is in memory here is sent. ::

        handful.solve("eol", support, labels, "pile/", engine=handful.cluster.Actors("auto"))
    """

    address: str | None = None
    count: int | None = None
    hold: int | None = None

    def open(self, pile: Pile, chunk: int | None = None) -> ActorCrew:
        """Return the crew that holds this pile."""
        return ActorCrew(self, pile, chunk)


class Holder:
    """What an actor does: passes over spans of the pile, which it keeps if there is room."""

    def __init__(self, pile: Pile, chunk: int | None, hold: int | None) -> None:
        self.pile, self.chunk = pile, chunk
        self.room = _spare() if hold is None else hold
        self.held: dict[Span, np.ndarray] = {}

    def ready(self) -> bool:
        """Return True; whoever waits for it knows that the actor has started."""
        return True

    def give(self, span: Span, rows: np.ndarray) -> None:
        """Rows that are in no file."""
        self.held[span] = rows

    def sums(self, each: Pass, spans: Sequence[Span]) -> Sums:
        """Return the sums of one pass over several spans of the pile."""
        total: Sums = {}
        with one_blas_thread():
            for span in spans:
                add(total, sums_of(self._blocks(span), each))
        return total

    def each(self, function: Callable[[Blocks], T], span: Span) -> T:
        """Return what a function makes of the blocks of one span."""
        with one_blas_thread():
            return function(self._blocks(span))

    def _blocks(self, span: Span) -> Blocks:
        if span not in self.held:
            size = (span.stop - span.start) * self.pile.dimension * self.pile.dtype.itemsize
            if size > self.room:
                return self.pile.blocks(span, self.chunk)
            rows = np.empty((span.stop - span.start, self.pile.dimension), self.pile.dtype)
            for at, block in self.pile.blocks(span):
                rows[at - span.at : at - span.at + len(block)] = block
            self.held[span] = rows
            self.room -= size
        alone = Pile([self.held[span]])
        return ((span.at + at, block) for at, block in alone.blocks(Span(0, 0, span.stop - span.start, 0), self.chunk))


class ActorCrew:
    """The actors of one solve, and who holds what."""

    def __init__(self, engine: Actors, pile: Pile, chunk: int | None) -> None:
        self.engine, self.pile, self.chunk = engine, pile, chunk
        self.connection = ExitStack()
        self.ray = self.connection.enter_context(connected(engine.address))
        self.lost: Any = (
            self.ray.exceptions.RayActorError,
            self.ray.exceptions.ObjectLostError,  # its machine was gone before the result was fetched
            self.ray.exceptions.WorkerCrashedError,
        )
        self.wanted = engine.count or max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        self.sent = self.ray.put(_without_arrays(pile))
        self.actors: dict[Any, list[Span]] = {}  # with what each holds
        self.coming: dict[Any, Any] = {}  # by the news that it is there
        for _ in range(self.wanted):
            self._recruit()
        self._wait_for_one()
        self._welcome(timeout=5.0)  # others are on their way, as a rule
        self._share_out(pile.spans(self._span()))

    def sums(self, each: Pass) -> Sums:
        """All actors at once; the part of one that dies is made by others."""
        self._welcome()
        small = sum(getattr(array, "nbytes", 0) for array in each.arrays.values()) < SMALL
        sent = each if small else self.ray.put(each)
        asked = {actor: tuple(spans) for actor, spans in self.actors.items() if spans}  # lists grow when others die
        under_way = {actor.sums.remote(sent, spans): (actor, spans) for actor, spans in asked.items()}
        parts: dict[int, Sums] = {}
        while under_way:
            (ref,), _ = self.ray.wait(list(under_way))
            actor, spans = under_way.pop(ref)
            try:
                parts[spans[0].at] = self._get(ref)
            except self.lost:
                self._bury(actor)
                for other, moved in self._now_with(spans).items():
                    under_way[other.sums.remote(sent, moved)] = other, moved
        total: Sums = {}
        for at in sorted(parts):  # not in the order of who was first
            add(total, parts[at])
        return total

    def each(self, function: Callable[[Blocks], T]) -> Iterator[tuple[Span, T]]:
        """Yield each span with what a function makes of its blocks, as they get finished."""
        self._welcome()
        sent = self.ray.put(function)
        todo = {actor: list(spans) for actor, spans in self.actors.items()}
        under_way: dict[Any, tuple[Any, Span]] = {}

        def hand_out(actor: Any) -> None:
            while todo.get(actor) and sum(holder is actor for holder, _ in under_way.values()) < PER_ACTOR:
                span = todo[actor].pop(0)
                under_way[actor.each.remote(sent, span)] = actor, span

        for actor in list(todo):
            hand_out(actor)
        while under_way:
            (ref,), _ = self.ray.wait(list(under_way))
            actor, span = under_way.pop(ref)
            try:
                yield span, self._get(ref)
            except self.lost:
                self._bury(actor)
                for other, moved in self._now_with([span, *todo.pop(actor, [])]).items():
                    todo.setdefault(other, []).extend(moved)
                for other in list(self.actors):
                    hand_out(other)
            else:
                hand_out(actor)

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for actor in (*self.actors, *self.coming.values()):
            self.ray.kill(actor)
        self.connection.close()

    def _get(self, ref: Any) -> Any:
        """What a pass ran into is raised as on this machine."""
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error, self.lost):
                raise
            raise (error.cause if isinstance(error.cause, Exception) else error) from None

    def _recruit(self) -> None:
        make = self.ray.remote(num_cpus=1, max_restarts=0)(Holder)
        actor = make.remote(self.sent, self.chunk, self.engine.hold)
        self.coming[actor.ready.remote()] = actor

    def _welcome(self, timeout: float = 0.0) -> None:
        """Those that have come take over rows of those that hold most."""
        there, _ = (
            self.ray.wait(list(self.coming), num_returns=len(self.coming), timeout=timeout) if self.coming else ([], [])
        )
        for news in there:
            actor = self.coming.pop(news)
            try:
                self.ray.get(news)
            except self.lost:
                self._recruit()
                continue
            self.actors[actor] = []
            fair = -(-sum(map(len, self.actors.values())) // len(self.actors))
            for spans in self.actors.values():
                self.actors[actor] += spans[fair:]
                del spans[fair:]
            self._supply(actor, self.actors[actor])

    def _wait_for_one(self) -> None:
        end = monotonic() + PATIENCE
        while not self.actors:
            self._welcome(timeout=1.0)
            if monotonic() > end:
                raise ConnectionError(f"no machine of the Ray cluster had a CPU to spare for {PATIENCE:.0f} seconds")

    def _share_out(self, spans: list[Span]) -> None:
        """Neighbours together."""
        parts = np.array_split(np.arange(len(spans)), len(self.actors))
        for actor, part in zip(self.actors, parts, strict=True):
            self.actors[actor] = [spans[i] for i in part]
            self._supply(actor, self.actors[actor])

    def _bury(self, actor: Any) -> None:
        """Share what a dead actor held among the others; it may be found dead more than once."""
        if actor not in self.actors:
            return
        spans = self.actors.pop(actor)
        self._recruit()
        self._wait_for_one()
        for other, span in zip(cycle(list(self.actors)), spans, strict=False):
            self.actors[other].append(span)
            self._supply(other, [span])

    def _now_with(self, spans: Sequence[Span]) -> dict[Any, tuple[Span, ...]]:
        """Who holds these rows."""
        holders = {actor: tuple(span for span in held if span in spans) for actor, held in self.actors.items()}
        return {actor: some for actor, some in holders.items() if some}

    def _supply(self, actor: Any, spans: Sequence[Span]) -> None:
        """Send rows that are in memory here; an actor does one thing after the other, so they are there in time."""
        for span in spans:
            piece = self.pile.pieces[span.piece]
            if isinstance(piece, InMemory):
                actor.give.remote(span, piece.array[span.start : span.stop])

    def _span(self) -> int:
        """Rows of a span: so few that the loss of one actor can be shared by many."""
        return min(self.pile.usual_span, max(1, -(-len(self.pile) // (4 * self.wanted))))


@dataclass(frozen=True)
class Sent:
    """Rows that an actor is given, in the place of an array that would go to all of them."""

    rows: int
    dimension: int
    dtype: np.dtype

    def cuts(self, rows: int) -> list[int]:
        """Raise NotImplementedError: the process that has the array cuts it into spans."""
        raise NotImplementedError  # spans are cut by whoever has the array

    blocks = cuts


def _without_arrays(pile: Pile) -> Pile:
    light: Pile = object.__new__(Pile)
    light.dtype = pile.dtype
    light.pieces = [Sent(p.rows, p.dimension, p.dtype) if isinstance(p, InMemory) else p for p in pile.pieces]
    return light


def _spare() -> int:
    """Bytes that one of a machine's CPUs may fill."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 30
    return int(HELD * free / (os.cpu_count() or 1))
