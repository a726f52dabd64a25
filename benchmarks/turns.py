"""Contenders in processes of their own that take turns: none is disturbed by another's memory, and a noisy moment hits
all of them alike."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol


class Work(Protocol):
    """What a contender does; made in its own process."""

    about: dict[str, float]
    """What is known once it is made."""

    def turn(self) -> float:
        """Do a turn; what it cost."""


class Contender:
    """Work in another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.about: dict[str, float] = connection.recv()

    def turn(self) -> float:
        self._connection.send(None)
        cost: float = self._connection.recv()
        return cost


@contextmanager
def contender(make: Callable[..., Work], *given: Any) -> Iterator[Contender]:
    """`make` and what it is given must be importable and picklable; returns once the work is made."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(there, make, given))
    process.start()
    there.close()
    try:
        yield Contender(here)
    finally:
        here.close()
        process.join()


def _serve(connection: Connection, make: Callable[..., Work], given: tuple[Any, ...]) -> None:
    work = make(*given)
    connection.send(work.about)
    while True:
        try:
            connection.recv()
        except EOFError:
            return
        connection.send(work.turn())


class Measured(dict[str, list[float]]):
    """Costs by contender, turn by turn; and what was known of each."""

    about: dict[str, dict[str, float]]


def take_turns(works: Mapping[str, tuple[Any, ...]], rounds: int) -> Measured:
    """Each work is how to make it, and what with."""
    with ExitStack() as stack:
        contenders = {name: stack.enter_context(contender(*work)) for name, work in works.items()}
        costs = Measured({name: [] for name in works})
        costs.about = {name: each.about for name, each in contenders.items()}
        for _ in range(rounds):
            for name, each in contenders.items():
                costs[name].append(each.turn())
        return costs
