"""Running a flow for real: store, bounds, exactly-once output, graceful stop, one or many processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from bytewax.dataflow import Dataflow
from bytewax.recovery import InconsistentPartitionsError, MissingPartitionsError, NoPartitionsError
from bytewax.run import cli_main

from sluiceway.errors import FlowError, SettingsError, SluicewayError
from sluiceway.flows.graph import Running, build, progress_topic, resolve_bounds, sink_step, source_step
from sluiceway.flows.preflight import Surroundings, look_around
from sluiceway.flows.progress import Progress
from sluiceway.flows.recovery import Store, is_panic
from sluiceway.flows.settings import Settings
from sluiceway.flows.stopping import Stop
from sluiceway.operators.adapters.failure import first_failure, forget_failures
from sluiceway.operators.stages import scale
from sluiceway.schemas import decode
from sluiceway.topics import kafka
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import whole_size
from sluiceway.topics.url import DirectoryTopic

DEFAULT_CHECKPOINT_SECONDS = 2.0
DEFAULT_PARTITIONS = 8
STORE_ERRORS = (InconsistentPartitionsError, MissingPartitionsError, NoPartitionsError)


@dataclass(frozen=True, slots=True)
class Cluster:
    """This process among those that run the flow together."""

    process: int = 0
    addresses: tuple[str, ...] = ()
    workers: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Bytewax's own variables, which its `cli_main` does not read."""
        addresses = tuple(filter(None, environment.get("BYTEWAX_ADDRESSES", "").split(";")))
        hosts = environment.get("BYTEWAX_HOSTFILE_PATH")
        if not addresses and hosts:
            try:
                addresses = tuple(line.strip() for line in Path(hosts).read_text().splitlines() if line.strip())
            except OSError as problem:
                raise SettingsError(f"BYTEWAX_HOSTFILE_PATH {hosts!r} cannot be read: {problem.strerror}") from None
        process = environment.get("BYTEWAX_PROCESS_ID")
        if process is None and "BYTEWAX_POD_NAME" in environment and "BYTEWAX_STATEFULSET_NAME" in environment:
            process = environment["BYTEWAX_POD_NAME"].removeprefix(environment["BYTEWAX_STATEFULSET_NAME"] + "-")
        number = _whole("BYTEWAX_PROCESS_ID", process or "0")
        workers = _whole("BYTEWAX_WORKERS_PER_PROCESS", environment.get("BYTEWAX_WORKERS_PER_PROCESS", "1"))
        if number < 0 or workers < 1:
            name, given = ("PROCESS_ID", number) if number < 0 else ("WORKERS_PER_PROCESS", workers)
            raise SettingsError(f"BYTEWAX_{name} must not be {given}")
        if addresses and number >= len(addresses):
            raise SettingsError(f"BYTEWAX_PROCESS_ID is {number}, but there are {len(addresses)} addresses")
        if process is not None and not addresses:
            raise SettingsError("with BYTEWAX_PROCESS_ID, BYTEWAX_ADDRESSES or BYTEWAX_HOSTFILE_PATH must be set too")
        return cls(number, addresses, workers)


@dataclass(frozen=True, slots=True)
class Work:
    """What the lanes of a run do; everything around it (store, bounds, output, stopping) is the same."""

    build: Callable[[Settings, Running], Dataflow]
    belongs_to: Callable[[Settings, Surroundings], dict[str, Any]]
    """What a store of this work depends on: a change of any of it makes it another flow's."""
    prepare: Callable[[Settings, Callable[[], None] | None], None]
    """Made ready before the start; the second argument tells that it will take a while."""


def run(
    settings: Settings,
    *,
    recovery: Path | None = None,
    checkpoint_seconds: float = DEFAULT_CHECKPOINT_SECONDS,
    partitions: int = DEFAULT_PARTITIONS,
    create_topics: bool = False,
    adopt: bool = False,
    cluster: Cluster | None = None,
    on_start: Callable[[Bounds], None] | None = None,
    on_compile: Callable[[], None] | None = None,
    progress: Progress | None = None,
    work: Work | None = None,
) -> bool:
    """Run until the input ends or the flow is asked to stop; whether it was asked.

    `work` is what the lanes do, by default selecting. `progress` is kept up to date from the start on, for another
    thread to show.

    Everything that goes wrong is raised as a `SluicewayError` where a sentence can say it.
    """
    cluster = cluster or Cluster.from_environment()
    progress = progress or Progress()
    work = work or Work(build, belongs_to, _warm_up)
    if cluster.addresses and recovery is None:
        raise SettingsError(
            "several processes share their bounds, their stop and their checkpoints through a recovery store: add"
            " --recovery DIR, a directory that all of them reach"
        )
    around = look_around(settings, create=create_topics)
    store = None if recovery is None else Store(recovery)
    stop = Stop(recovery)
    try:
        bounds = _open(store, settings, around, cluster, partitions, adopt, work)
        work.prepare(settings, on_compile)
        flow = work.build(settings, Running(around, bounds, stop, store is not None, checkpoint_seconds, progress))
        first = store if cluster.process == 0 else None
        was_clean = first is not None and first.is_clean
        stop.listen(on_never_begun=first.mark_clean if first is not None and was_clean else lambda: None)
        if first is not None:
            first.pin(bounds())
        progress.begin()
        if on_start is not None and cluster.process == 0:
            on_start(bounds())
        _execute(flow, cluster, checkpoint_seconds, store)
        if first is not None:
            first.mark_clean()
    except BaseException:
        if store is not None and cluster.process == 0:
            store.undo()
        raise
    finally:
        try:
            stop.close()
        finally:
            if store is not None:
                store.close()
    return stop.stopped


def _warm_up(settings: Settings, on_compile: Callable[[], None] | None) -> None:
    """Load or compile the kernels before the first record waits for them."""
    if on_compile is not None and not (settings.operator_class.is_compiled() and decode.is_compiled()):
        on_compile()
    settings.operator_class.warm_up()
    scale.warm_up()
    decode.warm_up()


def _open(
    store: Store | None,
    settings: Settings,
    around: Surroundings,
    cluster: Cluster,
    partitions: int,
    adopt: bool,
    work: Work,
) -> Callable[[], Bounds]:
    """Open the store and decide the run's bounds; processes other than the first read them once all are connected."""
    if store is None:
        resolved = resolve_bounds(settings, around)
        return lambda: resolved
    store.open(
        work.belongs_to(settings, around), partitions=partitions, process=cluster.process, cluster=cluster.addresses
    )
    if cluster.process > 0:
        return store.bounds
    stands = store.positions(source_step(settings))
    bounds = _bounds(store, settings, around, ran=bool(stands))
    if not adopt:
        _refuse_other_outputs(store, bounds)
        _refuse_strange_output(store, settings, around, bounds, stands)
    return lambda: bounds


def _bounds(store: Store, settings: Settings, around: Surroundings, *, ran: bool) -> Bounds:
    """Those of an interrupted run, which this one finishes; what `input.stop` says now, if it has changed since."""
    outputs = tuple(topic.identity for topic in settings.outputs.values())
    begins = _sizes(settings, around)
    if store.is_clean and not ran:
        begins = dict.fromkeys(begins, (0,) * around.lanes)  # all output is to come; what stands is compared with it
    if store.is_clean:
        return replace(resolve_bounds(settings, around), outputs=outputs, begins=begins)
    pinned = store.bounds()
    begins |= pinned.begins  # what an interrupted run wrote after its last checkpoint is still to come
    if pinned.stop_setting == settings.input.stop:
        return replace(pinned, outputs=outputs, begins=begins)
    return replace(resolve_bounds(settings, around), starts=pinned.starts, outputs=outputs, begins=begins)


def _sizes(settings: Settings, around: Surroundings) -> dict[str, tuple[int, ...]]:
    """How much stands in each output directory, by lane."""
    return {
        topic.identity: tuple(whole_size(topic, lane) for lane in range(around.lanes))
        for topic in settings.outputs.values()
        if isinstance(topic, DirectoryTopic)
    }


def _refuse_other_outputs(store: Store, bounds: Bounds) -> None:
    """What an interrupted run got out after its last checkpoint is known by where it wrote it."""
    if store.is_clean:
        return
    before, now = set(store.bounds().outputs), set(bounds.outputs)
    if before != now:
        changes = [f"no longer to {output}" for output in sorted(before - now)]
        changes += [f"now to {output}" for output in sorted(now - before)]
        raise SettingsError(
            f"the last run of this flow was interrupted, and the flow is to write {', '.join(changes)}; outputs may"
            f" change after a clean end or stop: run it once more with those it had"
        )


def belongs_to(settings: Settings, around: Surroundings) -> dict[str, Any]:
    """What a store's models depend on: a change of any of it makes them another flow's."""
    return {
        "flow": settings.flow.name,
        "input": settings.source.identity,
        "input_id": around.input_id,
        "input_partitions": around.lanes,
        "operator": settings.operator.name,
        "state_version": settings.operator_class.STATE_VERSION,
        "params": settings.make_operator().params,
        "stream": settings.input.stream,
        "scale": settings.scale,
        "classes": settings.input.classes,
        "target_type": settings.input.target_type,
        "feature_names": settings.input.feature_names,
        "window": None if settings.window is None else settings.window.model_dump(),
    }


def _refuse_strange_output(
    store: Store, settings: Settings, around: Surroundings, bounds: Bounds, stands: Mapping[int, int]
) -> None:
    """The store and what is out already must tell the same story, or somebody must say that it is fine (`--adopt`)."""
    name, adopt = settings.flow.name, f"sluiceway {settings.verb} --adopt"
    never_ran = store.is_clean and not stands
    if never_ran:
        for topic in settings.outputs.values():
            if isinstance(topic, DirectoryTopic) and any(whole_size(topic, lane) for lane in range(around.lanes)):
                raise FlowError(
                    f"{topic} already holds output, but the recovery store {store.directory} is new; write to another"
                    f" directory, or, if the output is this flow's own and its store was lost, `{adopt}`"
                    f" replays the input and goes on after it"
                )
    if not around.outputs or settings.output.delivery != "exactly-once":
        return
    bootstrap = settings.kafka_topics[next(iter(around.outputs))].bootstrap
    heres = [stands.get(lane, start) for lane, start in enumerate(bounds.starts)]
    # after a crash the group must have come as far as the store at least, which learns of a commit last
    wrote = set() if store.is_clean else store.keys(sink_step(settings))
    known = [here if lane in wrote else 0 for lane, here in enumerate(heres)]
    out = kafka.group_offsets(bootstrap, settings.kafka, name, progress_topic(settings, around), known)
    for lane, (sent, here) in enumerate(zip(out, heres, strict=True)):
        if sent is not None and never_ran:
            raise FlowError(
                f"the flow {name!r} has already sent its output up to offset {sent} of partition {lane}, but the"
                f" recovery store {store.directory} is new; give the flow another name, or, if its store was lost,"
                f" `{adopt}` replays the input from input.start and goes on after what is out"
            )
        if sent is None and lane in wrote:
            raise FlowError(
                f"the recovery store {store.directory} stands at offset {here} of partition {lane} after a crash, but"
                f" the consumer group {name!r}, which knows how much output is out, is gone (expired or deleted);"
                f" `{adopt}` goes on from the store (output of the last seconds before the crash may come"
                f" twice), or give the flow another name and another recovery directory"
            )
        if sent is not None and sent < here and not store.is_clean:
            raise FlowError(
                f"the recovery store {store.directory} stands at offset {here} of partition {lane}, but the consumer"
                f" group {name!r} says that output is out only up to {sent}; was the group's offset reset?"
                f" `{adopt}` goes on from the store"
            )


def _execute(flow: Any, cluster: Cluster, checkpoint_seconds: float, store: Store | None) -> None:
    # Records and messages live for one poll and hold no cycles: looking for some among them every 700 allocations,
    # and through all imported modules now and then, costs a tenth of the flow's time.
    forget_failures()
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 50)
    try:
        cli_main(
            flow,
            workers_per_process=cluster.workers,
            process_id=cluster.process if cluster.addresses else None,
            addresses=list(cluster.addresses),
            epoch_interval=timedelta(seconds=checkpoint_seconds),
            recovery_config=None if store is None else store.config(),
        )
    except BaseException as problem:
        failure = first_failure()
        reason = _innermost(problem) or _innermost(failure)
        if reason is not None:
            raise reason from problem
        _refuse_address(problem, cluster)
        if failure is not None:
            raise failure from problem
        if cluster.addresses and is_panic(problem):
            raise FlowError(
                f"process {cluster.process}: another process of the flow has ended, so this one ends too; start all"
                f" {len(cluster.addresses)} of them again"
            ) from problem
        if store is not None and isinstance(problem, STORE_ERRORS):
            raise FlowError(f"the recovery store {store.directory} cannot be resumed from: {problem}") from problem
        if is_panic(problem):
            raise FlowError(
                f"the engine has failed: {str(problem).splitlines()[0]}; if it could not write its checkpoint, make"
                f" room in the recovery directory; the flow goes on from the last one when it is started again"
            ) from problem
        raise
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


def _refuse_address(problem: BaseException, cluster: Cluster) -> None:
    """An address that this process cannot listen at, a port in use most often, is a mistake in the settings."""
    _, failed, reason = str(problem).partition("failed to initialize networking: ")
    if failed and cluster.addresses:
        raise SettingsError(
            f"process {cluster.process} cannot listen at {cluster.addresses[cluster.process]}, its place in"
            f" BYTEWAX_ADDRESSES: {reason.splitlines()[0].partition(' (os error')[0]}"
        ) from problem


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{name} must be a whole number, not {text!r}") from None
