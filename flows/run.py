"""Running a flow for real: this process until the input ends or it is stopped."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum, auto
from functools import partial

from bytewax.dataflow import Dataflow
from bytewax.run import cli_main

from sluiceway.errors import FlowError, SettingsError, SluicewayError
from sluiceway.flows import first_start
from sluiceway.flows.dead_letters import DeadLetters
from sluiceway.flows.enlarge import enlarge
from sluiceway.flows.graph import dataflow
from sluiceway.flows.preflight import Surroundings, look_around
from sluiceway.flows.process import DEFAULT_INTERVAL, EndedError, assemble
from sluiceway.flows.progress import Progress
from sluiceway.flows.pulse import Pulse
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.flows.stopping import Stop
from sluiceway.flows.watch import TopicsWatch
from sluiceway.flows.work import Work
from sluiceway.flows.worker import raise_problems
from sluiceway.topics.members import forgotten_after

EPOCH = timedelta(seconds=10)
"""Of the engine. It means nothing here: lanes commit by themselves."""
GONE = {
    "BYTEWAX_RECOVERY_DIRECTORY": "a flow keeps its state where its output goes",
    "BYTEWAX_ADDRESSES": "processes of a flow find each other through the broker: start as many as you like",
    "BYTEWAX_HOSTFILE_PATH": "processes of a flow find each other through the broker: start as many as you like",
    "BYTEWAX_PROCESS_ID": "processes of a flow find each other through the broker: start as many as you like",
}


class Outcome(Enum):
    """How a run ended well."""

    ENDED = auto()
    """The input has ended."""
    STOPPED = auto()
    OVER = auto()
    """It had ended before: there was nothing to do."""


def workers_wanted(environment: Mapping[str, str] = os.environ) -> int:
    """Bytewax's own variable, which its `cli_main` does not read; those that mean nothing any more are refused."""
    for name, instead in GONE.items():
        if environment.get(name):
            raise SettingsError(f"{name} is set, but {instead}; unset it")
    text = environment.get("BYTEWAX_WORKERS_PER_PROCESS", "1")
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(f"BYTEWAX_WORKERS_PER_PROCESS must be a whole number, not {text!r}") from None
    if number < 1:
        raise SettingsError(f"BYTEWAX_WORKERS_PER_PROCESS must not be {number}")
    return number


def run(
    settings: Settings,
    *,
    checkpoint_seconds: float = DEFAULT_INTERVAL,
    create_topics: bool = False,
    again: bool = False,
    workers: int | None = None,
    on_start: Callable[[Surroundings], None] | None = None,
    on_compile: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    work: Work = SELECTING,
    leaving: bool = False,
) -> Outcome:
    """Run until the input ends or the flow is asked to stop; `leaving`: the program then ends too.

    `work` is what the lanes do, by default selecting. `again` begins the next run of a bounded flow that has ended.
    `progress` is kept up to date from the start on, for another thread to show. `on_compile` is told how long the
    operator may take to compile, if it must.

    Everything that goes wrong is raised as a `SluicewayError` where a sentence can say it.
    """
    workers = workers_wanted() if workers is None else workers
    progress = progress or Progress()
    progress.dead_letters.limit = settings.dead_letter_limit
    stop = Stop(leaving=leaving)
    stop.listen()
    try:
        first_start.prepare(work, settings, on_compile)
        while True:
            grown = settings.input.on_new_partitions == "read" and enlarge(settings)
            if grown:  # else a group that takes it for the member it knows would hand it the lanes that it had
                stop.wait(forgotten_after(settings.kafka))
            around = look_around(settings, create=create_topics)
            watch = TopicsWatch(settings, around)
            pulse = Pulse(settings.flow.name, settings.source, settings.kafka, progress)
            try:
                process = assemble(
                    settings,
                    around,
                    work,
                    interval=checkpoint_seconds,
                    stopping=partial(_is_over, stop, watch, progress.dead_letters),
                    progress=progress,
                    again=again,
                )
                if on_start is not None and not grown:
                    on_start(around)
                progress.begin()
                _execute(dataflow(settings, process, work.decode(settings, around, progress), work), workers)
            except EndedError:
                return Outcome.OVER
            finally:
                watch.close()
                pulse.close()
            if watch.change is not None and not watch.change.grown and not stop.stopped:
                raise FlowError(watch.change.sentence)  # lanes may have failed for it: this is why
            raise_problems(process)
            progress.dead_letters.refuse_too_many(settings.flow.name, settings.verb)
            if watch.change is None or stop.stopped:
                return Outcome.STOPPED if stop.stopped else Outcome.ENDED
            if not (watch.change.grown and settings.input.on_new_partitions == "read"):
                raise FlowError(watch.change.sentence)
    finally:
        stop.close()


def _is_over(stop: Stop, watch: TopicsWatch, dead_letters: DeadLetters) -> bool:
    return stop() or watch.change is not None or dead_letters.too_many is not None


def _execute(flow: Dataflow, workers: int) -> None:
    with _rare_collections():
        try:
            cli_main(flow, workers_per_process=workers, epoch_interval=EPOCH)
        except BaseException as problem:
            reason = _innermost(problem)
            if reason is not None:
                raise reason from problem
            raise


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Records and messages live for one poll and hold no cycles: looking for some among them every 700 allocations,
    and through all imported modules now and then, costs a tenth of the flow's time."""
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _innermost(problem: BaseException | None) -> SluicewayError | None:
    """The engine wraps what a step raises; our own sentence lies inside."""
    seen = set()
    while problem is not None and id(problem) not in seen:
        if isinstance(problem, SluicewayError):
            return problem
        seen.add(id(problem))
        problem = problem.__cause__ or problem.__context__
    return None
