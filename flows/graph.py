"""A flow as a Bytewax dataflow: source -> select (or apply) -> sink. Wiring only.

No step exchanges items between workers, and none lets an exception through: what goes wrong with a lane's item is that
lane's own failure, and the others go on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.lane_run import Item
from sluiceway.flows.preflight import look_around
from sluiceway.flows.process import DEFAULT_INTERVAL, EndedError, assemble
from sluiceway.flows.progress import Progress
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.flows.sink import LaneSink
from sluiceway.flows.source import LaneSource
from sluiceway.flows.watch import TopicsWatch
from sluiceway.flows.work import Work
from sluiceway.flows.worker import Process, Worker, raise_problems
from sluiceway.schemas import encode

RECOVERY_OPTIONS = ("-r", "--recovery-directory")


def build(settings: Settings | Path | str) -> Dataflow:
    """The flow for `python -m bytewax.run`: exactly once as it stands, committing every two seconds.

    There SIGTERM is a crash, after which the flow goes on where its last commit was; `sluiceway run` stops gracefully.
    """
    _refuse_recovery()
    if not isinstance(settings, Settings):
        settings = Settings.load(Path(settings))
    around = look_around(settings)
    SELECTING.prepare(settings, None)
    watch = TopicsWatch(settings, around)
    progress = Progress()
    dead_letters = progress.dead_letters
    dead_letters.limit = settings.dead_letter_limit
    try:
        process = assemble(
            settings,
            around,
            SELECTING,
            interval=DEFAULT_INTERVAL,
            stopping=lambda: watch.change is not None or dead_letters.too_many is not None,
            progress=progress,
        )
    except EndedError:
        print(f"{settings.flow.name}: this flow has come to the end of its input already", file=sys.stderr)
        sys.exit(0)

    def tell() -> None:
        if watch.change is not None:
            raise FlowError(watch.change.sentence)
        raise_problems(process)
        dead_letters.refuse_too_many(settings.flow.name, settings.verb)

    return dataflow(settings, process, SELECTING.decode(settings, around, progress), SELECTING, tell)


def dataflow(
    settings: Settings,
    process: Process,
    decode: Callable[[Any], Any],
    work: Work,
    at_end: Callable[[], None] = lambda: None,
) -> Dataflow:
    flow = Dataflow(settings.flow.name)
    polls = op.input("source", flow, LaneSource(partial(Worker, process), at_end))
    # in one step: what is decoded holds only until the next poll, and the engine runs a step for several items at once
    outputs = op.map(work.step, polls, on_lane(lambda item: _process(item, decode(item.content))))
    op.output("sink", outputs, LaneSink())
    return flow


def on_lane(step: Callable[[Item], Any]) -> Callable[[Item | None], Item | None]:
    """A step that does its part for one lane's item; None for an item whose lane is no longer here, or has failed."""

    def run(item: Item | None) -> Item | None:
        if item is None or not item.attempt.live:
            return None
        try:
            return item._replace(content=step(item))
        except Exception as problem:
            item.attempt.fail(problem)
            return None

    return run


def _process(item: Item, decoded: Any) -> Any:
    assert item.attempt.opened is not None
    processor = item.attempt.opened.processor
    output = processor.process(decoded)
    if item.content.redriven:  # so that one that comes back is known as one, whichever topic it went through
        output.dead_letters = [encode.marked(letter, item.content.redriven) for letter in output.dead_letters]
    item.attempt.dead_letters.note(item.content, output.dead_letters, getattr(item.content, "side", 0))
    output.records = len(item.content.values)
    return output, processor.changes() if item.barrier else None


def _refuse_recovery() -> None:
    """Bytewax's own recovery would keep a second, older truth beside the flow's store."""
    given = any(option.startswith(RECOVERY_OPTIONS) for option in sys.argv[1:])
    engine = Path(sys.argv[0]).parts[-2:] == ("bytewax", "run.py")
    if (engine and given) or "BYTEWAX_RECOVERY_DIRECTORY" in os.environ:
        raise SettingsError(
            "a flow keeps its state where its output goes: leave out -r and BYTEWAX_RECOVERY_DIRECTORY, there is no"
            " recovery directory"
        )
