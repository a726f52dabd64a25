"""A backtest from its beginning to its results."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from sluiceway import files
from sluiceway.backtest.delay import Delay, parse_delay
from sluiceway.backtest.known import read_known
from sluiceway.backtest.replay import Counted, Pass, Progress, counted_of
from sluiceway.backtest.results import RESULTS, TIMING, Judging, Results, judge, stream_names
from sluiceway.backtest.selections import KeptTimelines
from sluiceway.backtest.start import Start, keep, read_start, refuse_unfit
from sluiceway.backtest.tables import write_tables
from sluiceway.backtest.variants import Variant, make_variants
from sluiceway.backtest.window import Window, reading_of, resolve, surroundings, topic_of_file
from sluiceway.errors import SettingsError
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.topics.backup_files import MANIFEST
from sluiceway.topics.url import DirectoryTopic, Topic, parse_topic

PLAN, START, INPUT = "plan.json", "start", "input"
FORMAT = 2
"""Of the files that a backtest works with."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what a backtest gives; kept in its folder, so that it can be gone on with and repeated."""

    tables: Mapping[str, Any]
    """The flow's settings, as its file has them."""
    directory: str
    """Where its relative directories are meant from."""
    vary: Mapping[str, Sequence[Any]]
    start: str | None = None
    stop: str | None = None
    input: str | None = None
    """A file instead of the flow's topic."""
    label: str | None = None
    """Its column of labels."""
    streams: Sequence[str] = ()
    label_delay: str | None = None
    state: str | None = None
    """Where the models to begin with are from."""
    known: Sequence[Mapping[str, Any]] | None = None
    """The features that are known to matter, and from where on."""

    def to_json(self) -> dict[str, Any]:
        content = {name: getattr(self, name) for name in self.__slots__}
        shown: dict[str, Any] = json.loads(json.dumps(content, default=str))
        return shown


class Interrupted(Exception):
    """It was asked to stop; what is done is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder


def backtest(
    flow: str | Path,
    vary: Mapping[str, Any] | None = None,
    *,
    start: str | int | None = None,
    stop: str | int | None = None,
    input: str | Path | None = None,  # noqa: A002  # what the command line calls it
    columns: files.Columns | None = None,
    streams: Iterable[str] = (),
    label_delay: str | int | None = None,
    state: str | Path | None = None,
    known: str | Path | None = None,
    window: int = 1000,
    fading: float = 0.999,
    jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    stopping: Callable[[], bool] = lambda: False,
    tell: Callable[[Progress], None] = lambda progress: None,
    on_start: Callable[[Window, Sequence[Variant], Path], None] = lambda window, variants, folder: None,
    on_compile: Callable[[], None] | None = None,
) -> Results:
    """Replay the records of a flow's topic, or of a file, through every combination of the settings in `vary`.

    >>> results = backtest("spam.toml", {"operator.k": [5, 10, 20]}, start="-100000")  # doctest: +SKIP
    >>> results.best("error")["label"]                                                 # doctest: +SKIP
    'ofs k=10'
    """
    path = Path(flow)
    judging = _judging(window, fading, known)
    plan = Plan(
        _tables(path),
        str(path.parent.absolute()),
        {name: _values(given) for name, given in (vary or {}).items()},
        None if start is None else str(start),
        None if stop is None else str(stop),
        None if input is None else str(Path(input).absolute()),
        None if columns is None else columns.y,
        sorted(set(streams)),
        None if label_delay is None else str(label_delay),
        None if state is None else str(Path(state).absolute()),
        None
        if judging.known is None
        else [{"from": one.start, "features": sorted(one.features)} for one in judging.known],
    )
    if plan.state is not None and (plan.start or plan.input):
        other = "--from" if plan.start else "--input"
        raise SettingsError(f"--state and {other} do not go together: models go on where they stand in its topic")
    variants = make_variants(plan.tables, Path(plan.directory), plan.vary)
    settings = variants[0].settings
    delay = None if plan.label_delay is None else parse_delay(plan.label_delay)
    if delay is not None and settings.topics.features is not None:
        raise SettingsError("--label-delay is for instances: a column that comes has no label to wait for")
    folder = _folder(settings.flow.name, out, resume=resume)
    fresh = not folder.exists() or not any(folder.iterdir())
    whole = _Backtest(plan, judging, variants, folder, delay, columns or files.Columns(), stopping)
    try:
        return whole.run(tell, on_start, on_compile, jobs, resume=resume)
    except (SettingsError, Interrupted) as stopped:
        begun = isinstance(stopped, Interrupted) and (folder / PLAN).exists()
        if fresh and not begun:  # so that the same command works once the mistake is mended
            shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True, slots=True)
class _Backtest:
    """One whose plan is made."""

    plan: Plan
    judging: Judging
    planned: Sequence[Variant]
    folder: Path
    delay: Delay | None
    columns: files.Columns
    stopping: Callable[[], bool]

    def run(
        self,
        tell: Callable[[Progress], None],
        on_start: Callable[[Window, Sequence[Variant], Path], None],
        on_compile: Callable[[], None] | None,
        jobs: int | None,
        *,
        resume: bool,
    ) -> Results:
        plan, folder, delay = self.plan, self.folder, self.delay
        settings = self.planned[0].settings
        source = self._source(settings)
        variants = [Variant(one.number, one.changes, reading_of(one.settings, source)) for one in self.planned]
        begun = None if plan.state is None else _start(Path(plan.state), folder)
        if begun is not None:
            refuse_unfit(begun, variants, surroundings(settings, source).lanes)
        replayed = _window(plan, variants[0].settings, folder, begun, resume=resume)
        if begun is not None:
            keep(begun, folder / START)
        if delay is not None:
            variants = [_waiting_for(one, delay) for one in variants]
        on_start(replayed, variants, folder)
        for one in {variant.settings.operator.name: variant for variant in variants}.values():
            SELECTING.prepare(one.settings, on_compile)
        chosen = frozenset(plan.streams) or None
        progress = Progress(replayed.size, seconds=[0.0] * len(variants))
        threads = min(jobs or os.cpu_count() or 1, len(variants))
        whole = Pass(variants, replayed, folder, delay, chosen, self.stopping, tell, progress, threads, begun)
        ended = whole.run()
        _keep_timing(folder, progress)
        if not ended:
            raise Interrupted(folder)
        counted = counted_of(folder, replayed.lanes)
        _refuse_useless(counted, plan, stream_names(folder, replayed.lanes))
        about, kept = self._about(replayed, counted), KeptTimelines()
        content = judge(variants, replayed, folder, about, self.judging, self._step, kept)
        _write(folder / RESULTS, content)
        timing = _timing(folder, counted)
        _write(folder / TIMING, timing)
        results = Results(folder, content, timing, kept)
        results.report()
        write_tables(results, folder)
        return results

    def _step(self) -> None:
        if self.stopping():
            raise Interrupted(self.folder)

    def _source(self, settings: Settings) -> Topic:
        if self.plan.input is None:
            return settings.source
        self.folder.mkdir(parents=True, exist_ok=True)
        where = DirectoryTopic((self.folder / INPUT).absolute())
        return topic_of_file(Path(self.plan.input), self.columns, where, self._step)

    def _about(self, replayed: Window, counted: Counted) -> dict[str, Any]:
        """What `results.json` says beside what was found: all that is needed to repeat it."""
        plan = self.plan
        given = {"input": plan.input, "label": plan.label, "known_features": plan.known, "state": plan.state}
        return {
            "flow": self.planned[0].settings.flow.name,
            "settings": {name: table for name, table in plan.tables.items() if name != "kafka"},
            "source": replayed.to_json(),
            "streams_chosen": list(plan.streams),
            "label_delay": None if self.delay is None else str(self.delay),
            **{name: value for name, value in given.items() if value is not None},
            **{name: value for name, value in counted.to_json().items() if name not in ("others", "targets")},
        }


def _values(given: Any) -> list[Any]:
    """A single one is a list of one."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _judging(window: int, fading: float, known: str | Path | None) -> Judging:
    if window < 1:
        raise SettingsError(f"--window must be at least 1 instance, not {window}")
    if not 0 < fading <= 1:
        raise SettingsError(f"--fading must lie above 0 and at most at 1, not {fading:g}")
    return Judging(window, fading, None if known is None else read_known(Path(known)))


def _tables(path: Path) -> dict[str, Any]:
    Settings.load(path)  # for its sentences
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _folder(flow: str, out: str | Path | None, *, resume: bool) -> Path:
    if out is not None:
        folder = Path(out)
        if (folder / PLAN).exists() and not resume:
            raise SettingsError(f"{folder} holds a backtest already: go on with it (--resume), or give another --out")
        if folder.exists() and not folder.is_dir():
            raise SettingsError(f"{folder} is no folder: give another --out")
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
        died_reading = resume and there == {f"{INPUT}.new"}
        if there and PLAN not in there and not died_reading:
            raise SettingsError(f"{folder} is not empty, and holds no backtest: give another --out")
        return folder
    if resume:
        raise SettingsError("--resume needs --out: the folder of the backtest to go on with")
    number = 1
    while (folder := Path("backtests") / f"{flow}-{number}").exists():
        number += 1
    return folder


def _start(path: Path, folder: Path) -> Start:
    """As it was when the backtest began."""
    kept = folder / START
    return read_start(kept if (kept / MANIFEST).exists() else path)


def _window(plan: Plan, settings: Settings, folder: Path, begun: Start | None, *, resume: bool) -> Window:
    """Resolved once: a backtest that goes on replays what it began with."""
    kept = folder / PLAN
    if resume and kept.exists():
        content = json.loads(kept.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise SettingsError(
                f"the backtest in {folder} was begun by another version of this program, which kept other files: begin"
                f" a new one, with another --out"
            )
        own = plan.to_json()
        for name, value in own.items():
            if content["plan"].get(name) != value:
                what = "--known" if name == "known" else name.replace("_", " ")
                raise SettingsError(
                    f"the backtest in {folder} was begun with another {what}: go on with the same settings and"
                    f" options, or give another --out"
                )
        return _window_of(content["window"], settings)
    at = None if begun is None else begun.positions(settings.source_role)
    window = resolve(settings, plan.start, plan.stop, settings.source, at, whole=plan.input is not None)
    folder.mkdir(parents=True, exist_ok=True)
    resolved = {**window.to_json(), "ids": window.around.input_id}
    _write(kept, {"format": FORMAT, "plan": plan.to_json(), "window": resolved})
    return window


def _window_of(content: Mapping[str, Any], settings: Settings) -> Window:
    found = surroundings(settings, settings.source)
    if found.input_id != content["ids"]:
        raise SettingsError(f"the topic {settings.source} was deleted and made anew since: begin a new backtest")
    return Window(parse_topic(content["topic"]), tuple(content["from"]), tuple(content["to"]), found)


def _waiting_for(variant: Variant, delay: Delay) -> Variant:
    """No instance may be forgotten before its withheld label comes."""
    given = variant.settings.input
    room = given.max_pending + (2**31 if delay.in_time else delay.amount + 1)
    settings = variant.settings.model_copy(update={"input": given.model_copy(update={"max_pending": room})})
    return Variant(variant.number, variant.changes, settings)


def _refuse_useless(counted: Counted, plan: Plan, names: Sequence[str]) -> None:
    dead = sum(counted.dead_letters.values())
    missing = [stream for stream in plan.streams if stream not in names]
    if missing:
        there = sorted({*names, *counted.others})
        hint = f"; there are {', '.join(there)}" if there else ""
        raise SettingsError(f"the window has no record of {' or '.join(map(repr, missing))}{hint}")
    if counted.records and dead >= counted.records:
        name, number = Counter(counted.dead_letters).most_common(1)[0]
        raise SettingsError(
            f"all {counted.records:,} records of the window are dead letters, {number:,} of them {name}: nothing was"
            f" learnt; `sluiceway check` and the flow's [input] section say what a record must be like"
        )
    if "features" in plan.tables.get("topics", {}) and not counted.targets and plan.state is None:
        raise SettingsError(
            f"the window has {counted.instances:,} columns but no target that they could be selected for: begin where"
            f" the target came"
        )
    if not counted.labelled:
        raise SettingsError(
            f"none of the {counted.instances:,} instances of the window has a label: there is nothing to learn from"
        )


# -- files ------------------------------------------------------------------------------------------------------------


def _write(path: Path, content: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(orjson.dumps(content) + b"\n")
    fresh.replace(path)


def _keep_timing(folder: Path, progress: Progress) -> None:
    """Processor time is summed over all tries; of one that was killed it is lost."""
    path = folder / "spent.json"
    before: dict[str, Any] = {"seconds": [0.0] * len(progress.seconds), "decoding": 0.0}
    if path.exists():
        before = json.loads(path.read_text())
    seconds = [one + other for one, other in zip(before["seconds"], progress.seconds, strict=True)]
    _write(path, {"seconds": seconds, "decoding": before["decoding"] + progress.decoding})


def _timing(folder: Path, counted: Counted) -> dict[str, Any]:
    spent = json.loads((folder / "spent.json").read_text())
    each = max(counted.instances, 1)
    variants = {str(number): {"cpu_us": 1e6 * seconds / each} for number, seconds in enumerate(spent["seconds"])}
    return {"decoding_cpu_us": 1e6 * spent["decoding"] / each, "variants": variants}
