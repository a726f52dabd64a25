"""What waits for its other half where two topics become one: instances for their labels, labels for their instances.

The n-th instance of an id and its n-th label belong together, whichever of the two topics is read first. So at any
moment an id has records of one side only that wait, in a queue of their own. A record that is given up leaves its place
in the queue: the other half, should it come after all, must not be taken for a later one's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal, NamedTuple

from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.schemas.state import StreamChange, StreamState

Side = Literal[0, 1]
INSTANCES: Side = 0
LABELS: Side = 1
SIDES: tuple[Side, Side] = (INSTANCES, LABELS)
KIND, STATE_VERSION = "pairs", 1
_HALF, _GIVEN_UP = "half", "given up"


class Half(NamedTuple):
    """A record that waits, as it came."""

    side: Side
    stream: str
    id: str
    time: int
    offset: int
    key: bytes | None
    value: bytes


class Late(Enum):
    """What a record meets whose other half was given up before."""

    GIVEN_UP = "given up"


GIVEN_UP = Late.GIVEN_UP


class Limit(NamedTuple):
    """How long records wait; None = for ever."""

    most: int | None = None
    """So many of each side."""
    longest: int | None = None
    """Milliseconds, by the times of records."""


@dataclass(slots=True, eq=False)
class _Place:
    side: Side
    name: tuple[str, str]
    """Stream and id."""
    time: int
    number: int
    """Places are numbered as they are taken."""
    piece: int
    """What stores it."""
    half: Half | None
    """None: given up."""
    due: int = 0
    """The how manieth that was to be given up."""


class Pairs:
    """What of one lane waits. It is in memory as a whole, and stored a piece a record."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._queues: dict[tuple[str, str], deque[_Place]] = {}
        self._pieces = Pieces()
        self._stored = 0
        """How many pieces there are."""
        self._newest = 0
        self._dues = 0
        # by number: of each side those that wait, those of them whose time is over, and those that were given up
        self._waiting: tuple[OrderedDict[int, _Place], ...] = (OrderedDict(), OrderedDict())
        self._due: tuple[OrderedDict[int, _Place], ...] = (OrderedDict(), OrderedDict())
        self._given_up: tuple[OrderedDict[int, _Place], ...] = (OrderedDict(), OrderedDict())

    # -- pairing -------------------------------------------------------------------------------------------------

    def take(self, half: Half) -> Half | Late | None:
        """What the record belongs to, which waits no longer; GIVEN_UP if that was; None: the record waits from now."""
        name = half.stream, half.id
        queue = self._queues.get(name)
        self._newest = max(self._newest, half.time)
        found: Half | Late | None = None
        if queue and queue[0].side != half.side:
            place = queue.popleft()
            if not queue:
                del self._queues[name]
            self._leave(place)
            found = place.half or GIVEN_UP
        else:
            piece = self._store(partial(_content, half))
            place = _Place(half.side, name, half.time, piece, piece, half)
            self._queues.setdefault(name, deque()).append(place)
            self._waiting[half.side][place.number] = place
        for side in SIDES:
            self._look_for_due(side)
        return found

    def waiting(self, side: Side) -> int:
        return len(self._waiting[side]) + len(self._due[side])

    @property
    def newest(self) -> int:
        """The newest time of any record so far."""
        return self._newest

    # -- giving up -----------------------------------------------------------------------------------------------

    def due(self, side: Side) -> int | None:
        """For `give_up`: up to which record it is time by now; None if there is none."""
        return self._dues if self._due[side] else None

    def give_up(self, side: Side, up_to: int) -> list[Half]:
        """Those whose time was over when `due` was asked, and that still wait: from now on they do not."""
        due, halves = self._due[side], []
        while due and next(iter(due.values())).due <= up_to:
            halves.append(self._give_up(due.popitem(last=False)[1]))
        self._forget(side)
        return halves

    def _look_for_due(self, side: Side) -> None:
        most, longest = self._limit
        waiting, due = self._waiting[side], self._due[side]
        while waiting:
            oldest = next(iter(waiting.values()))
            if not (
                (most is not None and len(waiting) > most)
                or (longest is not None and oldest.time + longest < self._newest)
            ):
                return
            del waiting[oldest.number]
            self._dues += 1
            oldest.due = self._dues
            due[oldest.number] = oldest

    def _give_up(self, place: _Place) -> Half:
        half = place.half
        assert half is not None
        self._drop(place.piece)
        place.half = None
        place.piece = self._store(lambda: _marker(place))
        self._given_up[place.side][place.number] = place
        return half

    def _forget(self, side: Side) -> None:
        """As long again a place is kept for what was given up. The oldest goes first: it is the first of its queue."""
        most, longest = self._limit
        given_up = self._given_up[side]
        while given_up:
            oldest = next(iter(given_up.values()))
            if not (
                (most is not None and len(given_up) > most)
                or (longest is not None and oldest.time + 2 * longest < self._newest)
            ):
                return
            queue = self._queues[oldest.name]
            queue.remove(oldest)
            if not queue:
                del self._queues[oldest.name]
            self._leave(oldest)

    def _leave(self, place: _Place) -> None:
        for places in (self._waiting, self._due, self._given_up):
            places[place.side].pop(place.number, None)
        self._drop(place.piece)

    # -- state ---------------------------------------------------------------------------------------------------

    def _store(self, content: Any) -> int:
        self._stored += 1
        return self._pieces.add(content)

    def _drop(self, piece: int) -> None:
        self._stored -= 1
        self._pieces.drop(piece)

    def changes(self) -> StreamChange:
        """What has changed since the last call, or since it was restored."""
        added, dropped = self._pieces.changes()
        head = {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": self._stored,
            "next_piece": self._pieces.following,
            "newest": self._newest,
            "instances": self.waiting(INSTANCES),
            "labels": self.waiting(LABELS),
        }
        return StreamChange(head, added, dropped)

    def restore(self, state: StreamState) -> None:
        """Go on from a stored state; `ValueError` if it is none."""
        head = readable(state, KIND, STATE_VERSION)
        self._pieces = Pieces(head["next_piece"])
        self._stored, self._newest = head["pieces"], head["newest"]
        places = sorted((_place(number, piece) for number, piece in state.pieces.items()), key=lambda one: one.number)
        for place in places:
            self._queues.setdefault(place.name, deque()).append(place)
            if place.half is not None:
                self._waiting[place.side][place.number] = place
        for place in sorted((one for one in places if one.half is None), key=lambda one: one.piece):
            self._given_up[place.side][place.number] = place
        for side in SIDES:
            self._look_for_due(side)


def _content(half: Half) -> list[Any]:
    return [_HALF, *half]


def _marker(place: _Place) -> list[Any]:
    return [_GIVEN_UP, place.side, *place.name, place.time, place.number]


def _place(piece: int, content: list[Any]) -> _Place:
    what, side, stream, id_, time, *rest = content
    if what == _HALF:
        offset, key, value = rest
        return _Place(side, (stream, id_), time, piece, piece, Half(side, stream, id_, time, offset, key, value))
    [number] = rest
    return _Place(side, (stream, id_), time, number, piece, None)
