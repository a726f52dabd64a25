"""Measures against hand-computed values, scikit-learn and River."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from sluiceway.backtest.differences import Difference, bootstrap, differences, holm
from sluiceway.backtest.judgements import JUDGED, scores_of
from sluiceway.backtest.labelled_rows import LABELLED
from sluiceway.backtest.measures import Verdicts
from sluiceway.backtest.replay import labels_of
from sluiceway.backtest.run import backtest
from sluiceway.backtest.said import said_by
from sluiceway.backtest.selections import Timeline, half_life, nogueira, steadiness
from sluiceway.backtest.variant_lane import folder_of
from sluiceway.errors import SettingsError
from sluiceway.flows.run import run
from sluiceway.flows.settings import Settings
from sluiceway.operators.learners.ofs import OFS
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic
from tests.backtest.worlds import columns, flow, instances, topic_of


def judged(y: Sequence[int], score: Sequence[float], stream: list[int] | None = None) -> NDArray[Any]:
    made = np.zeros(len(y), dtype=JUDGED)
    made["y"], made["score"], made["offset"] = y, score, np.arange(len(y))
    made["stream"] = stream or [0] * len(y)
    return made


def drawn(n: int, seed: int = 3) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n, p=[0.7, 0.3])
    return judged(y.tolist(), (y * 0.4 + rng.normal(size=n)).round(1).tolist(), rng.integers(0, 5, n).tolist())


def summary(rows: NDArray[Any], classes: int = 2) -> dict[str, float | None]:
    return Verdicts.of(rows, classes=classes).summary()


def test_by_hand() -> None:
    """Two streams by turns: + + - + -, of which the third is judged wrong; - - - - +, of which the second and last."""
    y = [1, -1, 1, -1, -1, -1, 1, -1, -1, 1]
    said = [1, -1, 1, 1, 1, -1, 1, -1, -1, -1]
    rows = judged(y, said, [0, 1] * 5)
    found = summary(rows)
    p = 7 / 10
    assert found["error"] == pytest.approx(1 - p)
    assert found["balanced_accuracy"] == pytest.approx((3 / 4 + 4 / 6) / 2)
    chance = (4 * 5 + 6 * 5) / 100  # 4 are positive and 6 negative, 5 are said to be either
    assert found["kappa"] == pytest.approx((p - chance) / (1 - chance))
    assert found["kappa_temporal"] == pytest.approx((p - 4 / 10) / (1 - 4 / 10))  # one label lasts, and three
    assert found["kappa_m"] == pytest.approx((p - 6 / 10) / (1 - 6 / 10))
    assert len({round(found[name] or 0, 9) for name in ("kappa", "kappa_temporal", "kappa_m")}) == 3
    first, second = Verdicts.of(rows).by_stream()
    assert first["kappa_temporal"] == pytest.approx((4 / 5 - 1 / 5) / (1 - 1 / 5))
    assert second["kappa_temporal"] == pytest.approx(0, abs=1e-12)  # 3 of 5 are right, and 3 last
    assert second["kappa_m"] == pytest.approx((3 / 5 - 4 / 5) / (1 - 4 / 5))


def test_a_score_of_nothing_is_wrong_as_in_mistakes() -> None:
    assert summary(judged([1, -1], [0.0, 0.0]))["error"] == 1.0


def test_as_in_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rows = drawn(2_000)
    rows = rows[rows["score"] != 0]
    said = np.sign(rows["score"])
    found = summary(rows)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(rows["y"], said), abs=1e-12)
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(rows["y"], said), abs=1e-12)
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(rows["y"], rows["score"]), abs=1e-12)
    for stream, own in enumerate(Verdicts.of(rows).by_stream()):
        alone = summary(rows[rows["stream"] == stream])
        assert own == pytest.approx(alone, abs=1e-12)


def test_more_than_two_classes() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(7)
    y = rng.integers(1, 5, 500)
    said = np.where(rng.random(500) < 0.6, y, rng.integers(1, 5, 500))
    found = summary(judged(y.tolist(), said.astype(float).tolist()), 4)
    assert found["error"] == pytest.approx(1 - metrics.accuracy_score(y, said), abs=1e-12)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, said), abs=1e-12)
    assert found["kappa"] == pytest.approx(metrics.cohen_kappa_score(y, said), abs=1e-12)
    assert found["auc"] is None


def test_windows_and_fading() -> None:
    utils, metrics = pytest.importorskip("river.utils"), pytest.importorskip("river.metrics")
    rows = drawn(300)
    found = Verdicts.of(rows).curves(50, 0.99)
    rolling = utils.Rolling(metrics.Accuracy, window_size=50)
    wrong_sum = weight = 0.0
    for row, at in zip(rows, range(1, 301), strict=True):
        ok = bool(row["score"] * row["y"] > 0)
        rolling.update(True, ok)
        wrong_sum, weight = 0.99 * wrong_sum + (not ok), 0.99 * weight + 1
        place = found["at"].index(at)
        assert found["window"]["error"][place] == pytest.approx(1 - rolling.get())
        assert found["fading"]["error"][place] == pytest.approx(wrong_sum / weight)
    assert found["cumulative"]["error"][-1] == pytest.approx(summary(rows)["error"])


def weighed(rows: NDArray[Any], weights: NDArray[np.float64]) -> dict[str, float]:
    """The measures of rows that do not count the same, written down as they are defined."""
    y, ok = rows["y"], rows["score"] * rows["y"] > 0
    said, last, lasts = np.where(ok, y, -y), dict[int, int](), []
    for label, stream in zip(y.tolist(), rows["stream"].tolist(), strict=True):
        lasts.append(last.get(stream) == label)
        last[stream] = label

    def share(chosen: Any) -> float:
        return float(weights[np.array(chosen)].sum() / weights.sum())

    p, up, said_up = share(ok), share(y > 0), share(said > 0)
    chance, same, most = up * said_up + (1 - up) * (1 - said_up), share(lasts), max(up, 1 - up)
    return {
        "error": 1 - p,
        "balanced_accuracy": (share(ok & (y > 0)) / up + share(ok & (y < 0)) / (1 - up)) / 2,
        "kappa": (p - chance) / (1 - chance),
        "kappa_temporal": (p - same) / (1 - same),
        "kappa_m": (p - most) / (1 - most),
    }


@pytest.mark.parametrize("stream", [None, 3])
def test_every_curve_is_as_its_measure_is_defined(stream: int | None) -> None:
    rows = drawn(600)
    verdicts = Verdicts.of(rows)
    found = verdicts.curves(80, 0.98, 37) if stream is None else verdicts.curves_of_streams([stream], 80, 0.98, 37)[0]
    own = rows if stream is None else rows[rows["stream"] == stream]
    assert found["at"][-1] == len(own)
    for place, at in enumerate(found["at"]):
        if at < 40:
            continue  # there may be one class alone
        ages = at - 1 - np.arange(len(own))
        seen = ages >= 0
        fading = np.where(seen, 0.98 ** np.maximum(ages, 0), 0)
        ways = {"cumulative": seen, "window": seen & (ages < 80), "fading": fading}
        for way, weights in ways.items():
            for name, value in weighed(own, weights.astype(float)).items():
                assert found[way][name][place] == pytest.approx(value, abs=1e-8), (way, name, at)


@pytest.mark.parametrize("window", [1, 7, 60, 1_000])
def test_areas_of_windows_are_those_of_their_rows(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores come in tenths, so that many are the same."""
    monkeypatch.setattr("sluiceway.backtest.tallies._AT_ONCE", 300)
    rows = drawn(300)
    found = Verdicts.of(rows).curves(window, 0.99)
    for at, area in zip(found["at"], found["window"]["auc"], strict=True):
        part = rows[max(at - window, 0) : at]
        own = summary(part)["auc"]
        assert (area is None) == (own is None)
        assert own is None or area == pytest.approx(own, abs=1e-9)


def test_labels_come_late_as_in_river(tmp_path: Path) -> None:
    """The same learner through `progressive_val_score(delay=)`: the same mistakes, one after the other."""
    base, stream = pytest.importorskip("river.base"), pytest.importorskip("river.stream")
    rng = np.random.default_rng(4)
    records = []
    for number in range(400):
        y = int(rng.choice([-1, 1]))
        x = {f"n{at}": round(float(rng.normal()), 3) for at in rng.choice(20, 5, replace=False)}
        records.append({"x": {**x, "tells": y * 0.5 + round(float(rng.normal()), 3)}, "y": y, "ts": 1_000 * number})
    topic = DirectoryTopic(tmp_path / "instances")
    create_directory_topic(topic, 1)
    appender = DirectoryAppender(topic, 1)
    appender.append(0, [orjson.dumps({"stream": "s", **record}) for record in records])
    appender.close()
    file = flow(tmp_path, {"name": "ofs", "k": 4}, input={"scale": "none", "stop": "end"})
    assert base
    for delay, label_delay in ((7, "7"), (1, "1"), (25, "25s")):
        model, scores, expected = OFS(k=4), {}, []
        pairs = ((record["x"], record["y"]) for record in records)
        for i, x, y in stream.simulate_qa(pairs, moment=None, delay=delay):
            if y is None:
                scores[i] = model.score_one(x)
            else:
                expected.append((y, scores[i]))
                model.learn_one(x, y)
        results = backtest(file, label_delay=label_delay, out=tmp_path / f"out-{label_delay}")
        [own] = said_by([folder_of(results.folder, 0)], [labels_of(results.folder, 0)], [1])
        assert list(zip(own.labels.y.tolist(), own.score.tolist(), strict=True)) == expected


@pytest.mark.parametrize("records_a_poll", [1, 3, 1_000])
def test_a_later_label_judges_the_score_its_instance_was_given(
    records_a_poll: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the poll of its instance, in a later one, after others were learnt; of nothing, it judges nothing."""
    rng = np.random.default_rng(7)
    model, records, expected, differing = OFS(k=3), list[dict[str, Any]](), list[tuple[int, float]](), 0
    waiting: dict[str, tuple[dict[str, float], float]] = {}
    for number in range(200):
        y = int(rng.choice([-1, 1]))
        kind = rng.random()
        if kind < 0.3 and waiting:
            name = str(rng.choice(sorted(waiting)))
            x, score = waiting.pop(name)
            differing += model.score_one(x) != score
            records.append({"stream": "s", "id": name, "y": y})
        elif kind < 0.4:
            records.append({"stream": "s", "id": "nobody", "y": y})
            continue
        else:
            x = {f"n{at}": round(float(rng.normal()) + y, 3) for at in rng.choice(8, 4, replace=False)}
            score = model.score_one(x)
            record: dict[str, Any] = {"stream": "s", "id": f"i{number}", "x": x}
            if kind < 0.7:
                waiting[f"i{number}"] = x, score
                records.append(record)
                continue
            records.append({**record, "y": y})
        expected.append((y, score))
        model.learn_one(x, y)
    assert differing > 20
    topic_of(tmp_path / "instances", iter(records), 1)
    monkeypatch.setattr("sluiceway.topics.directory_reader.RECORDS_A_POLL", records_a_poll)
    file = flow(tmp_path, {"name": "ofs", "k": 3}, input={"scale": "none", "stop": "end"})
    results = backtest(file, {"operator.k": [3, 1]}, out=tmp_path / "out")
    folders = [folder_of(results.folder, number) for number in range(2)]
    own, other = said_by(folders, [labels_of(results.folder, 0)], [1])
    assert list(zip(own.labels.y.tolist(), own.score.tolist(), strict=True)) == expected
    assert other.labels is own.labels
    assert results.variants[0]["judged"] == len(expected)


def test_lanes_are_judged_by_time_where_every_record_tells_it(tmp_path: Path) -> None:
    """Two lanes whose records come by turns; streams are numbered through, whatever their lane."""
    labelled, folder = [tmp_path / f"labels-{lane}" for lane in range(2)], tmp_path / "variant"
    folder.mkdir()
    for lane, (ts, y, score) in enumerate([([1, 3, 5], [1, 1, -1], [0.1, 0.3, np.nan]), ([2, 4], [-1, 1], [0.2, 0.4])]):
        rows = np.zeros(len(ts), dtype=LABELLED)
        rows["offset"], rows["ts"], rows["y"], rows["stream"] = range(len(ts)), ts, y, lane
        labelled[lane].write_bytes(rows.tobytes() + b"half of")
        scores_of(folder, lane).write_bytes(np.array(score).tobytes() + b"half")
    [own] = said_by([folder], labelled, [1, 2])
    assert own.score.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert own.labels.y.tolist() == [1, -1, 1, 1]
    assert own.labels.stream.tolist() == [0, 2, 0, 2]


def test_stability_by_hand() -> None:
    # 3 selections of d = 4: {0, 1}, {0, 1}, {0, 2}; p = 1, 2/3, 1/3, 0
    phi, low, high = nogueira([frozenset({0, 1}), frozenset({0, 1}), frozenset({0, 2})], 4)
    variance = (3 / 2) * (2 / 9 + 2 / 9) / 4
    assert phi == pytest.approx(1 - variance / (0.5 * 0.5))
    assert phi is not None
    assert low is not None
    assert high is not None
    # of each selection 1, 1 and 2/3: squares of deviations 1/81 + 1/81 + 4/81; the variance is 4 / 3**2 of that
    spread = 1.959963984540054 * (4 / 9 * 6 / 81) ** 0.5
    assert low == pytest.approx(phi - spread)
    assert high == pytest.approx(phi + spread)
    assert nogueira([frozenset(), frozenset()], 4) == (None, None, None)


def test_the_interval_of_stability_is_over_snapshots_that_lie_apart() -> None:
    rng = np.random.default_rng(9)
    line = timeline(*({f"f{at}" for at in rng.choice(9, 3, replace=False)} for _ in range(120)))
    sets = line.sets()
    apart = [sets[round(at)] for at in np.linspace(0, 119, 30).tolist()]
    found = steadiness(line, 9)
    assert [found["stability"], *found["stability_interval"]] == list(nogueira(apart, 9))
    assert found["stability"] != nogueira(sets, 9)[0]


def test_a_stream_s_stability_counts_its_own_features(tmp_path: Path) -> None:
    """Alone or beside a stream of a hundred others: what its instances had is what could have been selected."""

    def records(*streams: tuple[str, int]) -> Iterator[dict[str, Any]]:
        rngs = {stream: np.random.default_rng(number) for stream, number in streams}
        for _ in range(300):
            for stream, features in streams:
                rng = rngs[stream]
                x = {f"{stream}-{at}": round(float(rng.normal()), 3) for at in rng.choice(features, 5, replace=False)}
                yield {"stream": stream, "x": x, "y": int(rng.choice([-1, 1]))}

    found = {}
    for name, streams in {"alone": [("a0", 12)], "beside": [("a0", 12), ("b0", 100)]}.items():
        (tmp_path / name).mkdir()
        topic_of(tmp_path / name / "instances", records(*streams), partitions=1)
        file = flow(tmp_path / name, {"name": "ofs", "k": 3}, emit={"every": 25})
        results = backtest(file, out=tmp_path / name / "out")
        found[name] = results.variants[0]["streams"]["a0"]["selections"]
        assert results.content["features"] == sum(features for _, features in streams)
        line = results.timeline("a0", 0)
        assert found[name]["stability"] == nogueira(line.sets()[:30], 12)[0]
    assert found["alone"] == found["beside"]


def test_columns_are_features_too(tmp_path: Path) -> None:
    """Those that were never selected could have been."""
    topic_of(tmp_path / "features", columns(40), partitions=1)
    file = flow(tmp_path, {"name": "saola"}, "features", emit={"every": 5})
    results = backtest(file, out=tmp_path / "out")
    assert results.content["features"] == 40
    own = results.variants[0]["streams"]["c"]["selections"]
    assert own["ever_selected"] < 40
    assert own["stability"] == nogueira(results.timeline("c", 0).sets(), 40)[0]


def test_decisions_are_judged_and_what_they_took(tmp_path: Path) -> None:
    """Of a joint operator: as its flow's own predictions and snapshots say."""
    topic_of(tmp_path / "instances", instances(1_000))
    topics = {"predictions": "dir:live/predictions"}
    file = flow(tmp_path, {"name": "etana", "warm_up": 60, "refit_every": 40}, emit={"every": 40, "final": True})
    content = file.read_text().replace("[topics]", f'[topics]\npredictions = "{topics["predictions"]}"')
    file.write_text(content)
    run(Settings.load(file), checkpoint_seconds=0.2)
    found = backtest(file, out=tmp_path / "out").variants[0]
    lines = [
        orjson.loads(line)
        for path in sorted((tmp_path / "live" / "selections").glob("part-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    newest = {snapshot["stream"]: snapshot for snapshot in lines}
    assert set(found["streams"]) == set(newest) == {"s0", "s1"}
    for stream, snapshot in newest.items():
        own, told = found["streams"][stream]["measures"], snapshot["metrics"]
        assert own["error"] == pytest.approx(told["error_rate"])
        assert own["balanced_accuracy"] == pytest.approx(told["balanced_accuracy"])
    predictions = [
        orjson.loads(line)
        for path in sorted((tmp_path / "live" / "predictions").glob("part-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    used = [one["features_used"] for one in predictions if one["label"] is not None]
    assert found["costs"]["features_used"] == pytest.approx(np.mean(used), rel=0.1)  # those without a label count there
    assert found["costs"]["cost"] > 0


def timeline(*sets: set[str]) -> Timeline:
    made = Timeline("s")
    for at, names in enumerate(sets):
        entries = [{"feature": name, "weight": 1.0} for name in sorted(names)]
        made.add({"version": 10 * (at + 1), "seen": 0, "ts": 0, "n_selected": len(names), "selected": entries})
    return made


def test_how_long_features_stay() -> None:
    line = timeline({"a", "b"}, {"a", "c"}, {"a", "c"}, {"a", "d"})
    # b stays 10, c 20; a 30 and d 0 are still there: at 10 one of three left (2/3), at 20 one of two (1/3)
    assert half_life(line) == 20
    found = steadiness(line, 10)
    assert found["churn_per_1000"] == pytest.approx(1000 * 4 / 30)
    assert found["ever_selected"] == 4


def compared(rows: Sequence[NDArray[Any]], errors: Sequence[float | None], best: int) -> list[Difference]:
    return differences([Verdicts.of(own).judged for own in rows], errors, best)


def test_differences_between_variants() -> None:
    rng = np.random.default_rng(5)
    y = rng.choice([-1, 1], 4_000)
    good = judged(y.tolist(), np.where(rng.random(4_000) < 0.9, y, -y).tolist())
    alike = judged(y.tolist(), np.where(rng.random(4_000) < 0.9, y, -y).tolist())
    bad = judged(y.tolist(), np.where(rng.random(4_000) < 0.8, y, -y).tolist())
    errors = [summary(rows)["error"] for rows in (good, alike, bad)]
    best = min((0, 1), key=lambda number: errors[number] or 0)
    found = {difference.variant: difference for difference in compared([good, alike, bad], errors, best)}
    assert not found[2].chance
    assert found[2].low < found[2].error < found[2].high
    assert found[1 - best].chance


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(200):
        low, high, _ = bootstrap(rng.choice([-1.0, 0.0, 1.0], 900, p=[0.1, 0.7, 0.2]))
        covered += low <= 0.1 <= high
    assert 180 <= covered <= 199


def test_probabilities_are_raised_for_the_number_of_comparisons() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    rng = np.random.default_rng(8)
    y = rng.choice([-1, 1], 900)
    rows = [judged(y.tolist(), np.where(rng.random(900) < p, y, -y).tolist()) for p in (0.80, 0.78, 0.77, 0.74)]
    errors = [summary(own)["error"] for own in rows]
    found = sorted(compared(rows, errors, 0), key=lambda difference: difference.p)
    assert found[0].holm == pytest.approx(min(3 * found[0].p, 1))
    assert found[1].holm == pytest.approx(max(found[0].holm, min(2 * found[1].p, 1)))
    assert found[2].holm == pytest.approx(max(found[1].holm, found[2].p))


@pytest.mark.parametrize(("streams", "p"), [(8, 2 / 2**8), (6, 2 / 2**6), (5, None)])
def test_streams_as_observations(streams: int, p: float | None) -> None:
    """In each stream the second variant is wrong more often, and in each by another number: one order of signs of 2^n,
    and its opposite, are as extreme."""
    stream = np.repeat(np.arange(streams), 50)
    at = np.tile(np.arange(50), streams)
    worse = np.where(at < stream + 1, -1.0, 1.0)
    ones = np.ones(len(stream))
    rows = [judged([1] * len(stream), score.tolist(), stream.tolist()) for score in (ones, worse)]
    [found] = compared(rows, [summary(own)["error"] for own in rows], 0)
    assert found.wilcoxon == (None if p is None else pytest.approx(p))


def test_a_table_for_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic_of(tmp_path / "instances", instances(400))
    results = backtest(
        flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 50}), {"operator.k": [1, 4]}, out=tmp_path / "out"
    )
    for metric, sign in (("error", 1), ("auc", -1), ("n_selected", 1)):
        monkeypatch.setitem(sys.modules, "pandas", None)
        rows = results.table(metric)
        values = [sign * (results.measure(number, metric) or 0.0) for number in (0, 1)]
        assert [row["variant"] for row in rows] == [values.index(value) for value in sorted(values)]
        for row in rows:
            own = results.variants[row["variant"]]
            assert row["label"] == own["label"]
            assert row["kappa_m"] == own["measures"]["kappa_m"]
            assert row["stability"] == own["selections"]["stability"]
            assert row["state_bytes"] == own["costs"]["state_bytes"]
        monkeypatch.undo()
    pandas = pytest.importorskip("pandas")
    table = results.table("auc")
    assert isinstance(table, pandas.DataFrame)
    rows = results.rows("auc")
    assert list(table.columns) == list(rows[0])
    for name in ("variant", "label", "auc", "error", "cpu_us"):
        assert table[name].tolist() == [row[name] for row in rows]


def test_variants_by_their_labels_and_single_values(tmp_path: Path) -> None:
    topic_of(tmp_path / "instances", instances(400))
    file = flow(tmp_path, {"name": "pa-l2", "k": 3}, emit={"every": 50})
    results = backtest(file, {"operator.name": "ofs", "operator.k": 7, "emit.every": (20, 50)}, out=tmp_path / "out")
    labels = [own["label"] for own in results.variants]
    assert labels == ["ofs k=7 emit.every=20", "ofs k=7 emit.every=50"]
    assert results.timeline("s0", labels[1]) == results.timeline("s0", 1)
    with pytest.raises(SettingsError, match=r"there is no variant 'ofs k=9'; there are 0 \(ofs k=7"):
        results.timeline("s0", "ofs k=9")
    assert "ofs k=7 emit.every=20 and ofs k=7 emit.every=50 are equally good" in results.sentence


def test_selectors_are_not_said_to_lack_labels(tmp_path: Path) -> None:
    topic_of(tmp_path / "features", columns(40), partitions=1)
    results = backtest(flow(tmp_path, {"name": "saola"}, "features"), out=tmp_path / "out")
    assert "nothing is predicted here" in results.sentence
