"""The pile of one task on a Ray cluster. Each actor holds some of its rows, and actors only exchange sums.

A pass is sent to all actors. Each returns the sums over its rows, a few arrays [N, D]. When an actor dies, alone or
with its machine, only its share of the current pass is lost: the other actors read its rows from the files and compute
that share again. When a CPU is free, a new actor takes over the rows.
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

MAX_SPANS_PER_ACTOR = 2  # spans in progress at once, when each span has a result of its own
MAX_CALL_BYTES = (
    64 << 10
)  # sent with a call; larger data goes through the object store: milliseconds slower, but sent once to a machine
HELD_MEMORY_SHARE = 0.5  # of the free memory of a machine, for all actors on it together
ACTOR_TIMEOUT_S = 600.0  # how long to wait for a free CPU when no actor is left
T = TypeVar("T")


@dataclass(frozen=True)
class Actors:
    """An engine for `handful.solve`: the pile is held by the machines of a Ray cluster.

    Files must be under the same path on every machine. Arrays in memory are sent. ::

        streaming = handful.streaming.Streaming(engine=handful.cluster.Actors("auto"))
        handful.solve(support, labels, "pile/", method="eol", streaming=streaming)

    Parameters
    ----------
    address : str, optional
        The address of the cluster; by default this machine's cores.
    count : int, optional
        The number of actors; by default one for each CPU.
    hold : int, optional
        Bytes of the pile that each actor keeps in memory, so that it does not read its files again for every pass;
        by default a share of the free memory.
    """

    address: str | None = None
    count: int | None = None
    hold: int | None = None

    def open(self, pile: Pile, block_rows: int | None = None) -> ActorCrew:
        """Return the actors that hold this pile.

        Parameters
        ----------
        pile : Pile
            The pile.
        block_rows : int, optional
            How many rows are read at a time.
        """
        return ActorCrew(self, pile, block_rows)


class Holder:
    """The work of an actor: passes over spans of the pile. It keeps the spans in memory if there is room."""

    def __init__(self, pile: Pile, block_rows: int | None, hold: int | None) -> None:
        self.pile, self.block_rows = pile, block_rows
        self.room = _spare() if hold is None else hold
        self.held: dict[Span, np.ndarray] = {}

    def ready(self) -> bool:
        """Return True, when the actor has started."""
        return True

    def give(self, span: Span, rows: np.ndarray) -> None:
        """Receive rows that are not in a file."""
        self.held[span] = rows

    def sums(self, one_pass: Pass, spans: Sequence[Span]) -> Sums:
        """Return the sums of one pass over several spans of the pile."""
        total: Sums = {}
        with one_blas_thread():
            for span in spans:
                add(total, sums_of(self._blocks(span), one_pass))
        return total

    def each(self, function: Callable[[Blocks], T], span: Span) -> T:
        """Return the result of a function on the blocks of one span."""
        with one_blas_thread():
            return function(self._blocks(span))

    def _blocks(self, span: Span) -> Blocks:
        if span not in self.held:
            size = (span.stop - span.start) * self.pile.dimension * self.pile.dtype.itemsize
            if size > self.room:
                return self.pile.blocks(span, self.block_rows)
            rows = np.empty((span.stop - span.start, self.pile.dimension), self.pile.dtype)
            for at, block in self.pile.blocks(span):
                rows[at - span.at : at - span.at + len(block)] = block
            self.held[span] = rows
            self.room -= size
        alone = Pile([self.held[span]])
        return (
            (span.at + at, block) for at, block in alone.blocks(Span(0, 0, span.stop - span.start, 0), self.block_rows)
        )


class ActorCrew:
    """The actors of one call of `solve`, and which rows each one holds."""

    def __init__(self, engine: Actors, pile: Pile, block_rows: int | None) -> None:
        self.engine, self.pile, self.block_rows = engine, pile, block_rows
        self.connection = ExitStack()
        self.ray = self.connection.enter_context(connected(engine.address))
        self.actor_errors: Any = (
            self.ray.exceptions.RayActorError,
            self.ray.exceptions.ObjectLostError,  # the machine died before the result was fetched
            self.ray.exceptions.WorkerCrashedError,
        )
        self.wanted = engine.count or max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        self.sent = self.ray.put(_without_arrays(pile))
        self.actors: dict[Any, list[Span]] = {}  # the spans of each actor
        self.starting: dict[Any, Any] = {}  # the actor of each reference that is ready when it has started
        for _ in range(self.wanted):
            self._recruit()
        self._wait_for_one()
        self._welcome(timeout=5.0)  # usually the others start soon
        self._share_out(pile.spans(self._span()))

    def sums(self, one_pass: Pass) -> Sums:
        """Return the sums of a pass over all rows. If an actor dies, the others compute its share."""
        self._welcome()
        small = sum(getattr(array, "nbytes", 0) for array in one_pass.arrays.values()) < MAX_CALL_BYTES
        pass_ref = one_pass if small else self.ray.put(one_pass)
        spans_of_actor = {
            actor: tuple(spans) for actor, spans in self.actors.items() if spans
        }  # a copy: the lists grow when other actors die
        under_way = {actor.sums.remote(pass_ref, spans): (actor, spans) for actor, spans in spans_of_actor.items()}
        parts: dict[int, Sums] = {}
        while under_way:
            (ref,), _ = self.ray.wait(list(under_way))
            actor, spans = under_way.pop(ref)
            try:
                parts[spans[0].at] = self._get(ref)
            except self.actor_errors:
                self._bury(actor)
                for other, moved in self._now_with(spans).items():
                    under_way[other.sums.remote(pass_ref, moved)] = other, moved
        total: Sums = {}
        for at in sorted(parts):  # always in the same order, so that the sums are always the same
            add(total, parts[at])
        return total

    def each(self, function: Callable[[Blocks], T]) -> Iterator[tuple[Span, T]]:
        """Yield each span with the result of a function on its blocks, in the order in which they finish."""
        self._welcome()
        function_ref = self.ray.put(function)
        todo = {actor: list(spans) for actor, spans in self.actors.items()}
        under_way: dict[Any, tuple[Any, Span]] = {}

        def hand_out(actor: Any) -> None:
            while todo.get(actor) and sum(holder is actor for holder, _ in under_way.values()) < MAX_SPANS_PER_ACTOR:
                span = todo[actor].pop(0)
                under_way[actor.each.remote(function_ref, span)] = actor, span

        for actor in list(todo):
            hand_out(actor)
        while under_way:
            (ref,), _ = self.ray.wait(list(under_way))
            actor, span = under_way.pop(ref)
            try:
                yield span, self._get(ref)
            except self.actor_errors:
                self._bury(actor)
                for other, moved in self._now_with([span, *todo.pop(actor, [])]).items():
                    todo.setdefault(other, []).extend(moved)
                for other in list(self.actors):
                    hand_out(other)
            else:
                hand_out(actor)

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for actor in (*self.actors, *self.starting.values()):
            self.ray.kill(actor)
        self.connection.close()

    def _get(self, ref: Any) -> Any:
        """Return a result, or raise the error of the actor as if it happened on this machine."""
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error, self.actor_errors):
                raise
            raise (error.cause if isinstance(error.cause, Exception) else error) from None

    def _recruit(self) -> None:
        make = self.ray.remote(num_cpus=1, max_restarts=0)(Holder)
        actor = make.remote(self.sent, self.block_rows, self.engine.hold)
        self.starting[actor.ready.remote()] = actor

    def _welcome(self, timeout: float = 0.0) -> None:
        """Give the actors that have started some rows of the actors that hold most."""
        started, _ = (
            self.ray.wait(list(self.starting), num_returns=len(self.starting), timeout=timeout)
            if self.starting
            else ([], [])
        )
        for ready_ref in started:
            actor = self.starting.pop(ready_ref)
            try:
                self.ray.get(ready_ref)
            except self.actor_errors:
                self._recruit()
                continue
            self.actors[actor] = []
            fair = -(-sum(map(len, self.actors.values())) // len(self.actors))
            for spans in self.actors.values():
                self.actors[actor] += spans[fair:]
                del spans[fair:]
            self._supply(actor, self.actors[actor])

    def _wait_for_one(self) -> None:
        end = monotonic() + ACTOR_TIMEOUT_S
        while not self.actors:
            self._welcome(timeout=1.0)
            if monotonic() > end:
                raise ConnectionError(f"no machine of the Ray cluster had a free CPU for {ACTOR_TIMEOUT_S:.0f} seconds")

    def _share_out(self, spans: list[Span]) -> None:
        """Share the spans among the actors; neighbouring spans stay together."""
        parts = np.array_split(np.arange(len(spans)), len(self.actors))
        for actor, part in zip(self.actors, parts, strict=True):
            self.actors[actor] = [spans[i] for i in part]
            self._supply(actor, self.actors[actor])

    def _bury(self, actor: Any) -> None:
        """Share the spans of a dead actor among the others. It may be called more than once for the same actor."""
        if actor not in self.actors:
            return
        spans = self.actors.pop(actor)
        self._recruit()
        self._wait_for_one()
        for other, span in zip(cycle(list(self.actors)), spans, strict=False):
            self.actors[other].append(span)
            self._supply(other, [span])

    def _now_with(self, spans: Sequence[Span]) -> dict[Any, tuple[Span, ...]]:
        """Return the actors that hold these spans, each with those that it holds."""
        holders = {
            actor: tuple(span for span in held_spans if span in spans) for actor, held_spans in self.actors.items()
        }
        return {actor: common for actor, common in holders.items() if common}

    def _supply(self, actor: Any, spans: Sequence[Span]) -> None:
        """Send rows that are in memory here. An actor runs its calls in order, so the rows arrive before the pass."""
        for span in spans:
            piece = self.pile.pieces[span.piece]
            if isinstance(piece, InMemory):
                actor.give.remote(span, piece.array[span.start : span.stop])

    def _span(self) -> int:
        """Return the rows of a span: few enough that many actors can share the rows of a lost one."""
        return min(self.pile.usual_span, max(1, -(-len(self.pile) // (4 * self.wanted))))


@dataclass(frozen=True)
class RowsElsewhere:
    """The place of an array in memory, in the copy of the pile that all actors get. Its rows are sent separately."""

    rows: int
    dimension: int
    dtype: np.dtype

    def cuts(self, rows: int) -> list[int]:
        """Raise NotImplementedError: the process that has the array cuts it into spans."""
        raise NotImplementedError

    blocks = cuts


def _without_arrays(pile: Pile) -> Pile:
    light: Pile = object.__new__(Pile)
    light.dtype = pile.dtype
    light.pieces = [RowsElsewhere(p.rows, p.dimension, p.dtype) if isinstance(p, InMemory) else p for p in pile.pieces]
    return light


def _spare() -> int:
    """Return the bytes that one actor may hold: a share of the free memory, divided by the CPUs."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 30
    return int(HELD_MEMORY_SHARE * free / (os.cpu_count() or 1))
