"""The predictions of a poll -> bytes, in compiled code: all of them into one run of bytes, one after the other.

They are the same records as `encode.prediction` makes one by one, which also makes those of a poll with a name or an
id in which a letter must be escaped.
"""

from __future__ import annotations

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway import compiling
from sluiceway.compiling import as_argument, kernel
from sluiceway.schemas import encode
from sluiceway.schemas.batch import Label
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.json_writing import (
    MOST_DIGITS,
    is_plain,
    next_comma,
    octets,
    phrases,
    put,
    put_number,
    put_phrase,
)
from sluiceway.schemas.lane import OutRecords
from sluiceway.schemas.swar import READABLE_BEYOND, pointer_to

FLOW, ID, SEQ, AT, SCORE, LABEL, NEGATIVE, POSITIVE, QUOTE, NO_ID = range(10)
"""The phrases of a prediction: what stands before each member, and what is one of few."""


class PredictionEncoder:
    """The predictions of one partition; a score above 0 is the second label."""

    def __init__(self, flow: str, partition: int, labels: tuple[Label, Label] = (-1, 1)) -> None:
        self._flow, self._partition, self._labels = flow, partition, labels
        negative, positive = (orjson.dumps(label) + b"}" for label in labels)
        self._phrases = phrases(
            (
                b'{"flow":' + orjson.dumps(flow) + b',"stream":"',
                b'","id":',
                b',"seq":',
                b',"at":{"partition":%d,"offset":' % partition,
                b'},"score":',
                b',"label":',
                negative,
                positive,
                b'"',
                b"null",
            )
        )

    def encode(
        self, columns: Columns, rows: NDArray[np.int64] | None, seq: NDArray[np.int64], scores: NDArray[np.float64]
    ) -> OutRecords:
        """Of these rows; None = all of them. `seq` and `scores` are by row."""
        streams = columns.streams
        if rows is None:
            rows = np.arange(len(seq))
        else:
            streams, scores = [streams[row] for row in rows.tolist()], scores[rows]
        count = len(streams)
        if not count:
            return OutRecords([], [], [])
        # orjson writes a float as it does inside a record, and no number holds a comma
        told = orjson.dumps(scores.tolist())
        names = b"".join(streams)
        sizes = np.fromiter(map(len, streams), dtype=np.int64, count=count)
        size = count * (len(self._phrases) + 2 * MOST_DIGITS) + len(told) + len(names) + int(columns.id_size.sum())
        out, ends = np.empty(size + len(READABLE_BEYOND), dtype=np.uint8), np.empty(count, dtype=np.int64)
        done = write_predictions(
            out, ends, self._phrases, octets(names), sizes, octets(told[1:-1] + b","), rows, as_argument(columns.text),
            columns.id_at, columns.id_size, seq, columns.offset, scores,
        )  # fmt: skip
        offsets = (columns.offset if len(seq) == count else columns.offset[rows]).tolist()
        if done < count:
            values = self._one_by_one(columns, rows, streams, seq, scores)
        else:
            bounds, whole = ends.tolist(), out[: ends[-1]].tobytes()
            values = [whole[begin:end] for begin, end in zip([0, *bounds], bounds, strict=False)]
        return OutRecords(offsets, streams, values)

    def _one_by_one(
        self,
        columns: Columns,
        rows: NDArray[np.int64],
        streams: list[bytes],
        seq: NDArray[np.int64],
        scores: NDArray[np.float64],
    ) -> list[bytes]:
        values = []
        for row, stream, score in zip(rows.tolist(), streams, scores.tolist(), strict=True):
            at, size = int(columns.id_at[row]), int(columns.id_size[row])
            made = encode.prediction(
                flow=self._flow,
                stream=stream.decode(),
                id_=columns.text[at : at + size].tobytes().decode() if size else None,
                seq=int(seq[row]),
                partition=self._partition,
                offset=int(columns.offset[row]),
                score=score,
                label=self._labels[score > 0],
            )
            assert made.value is not None
            values.append(made.value)
        return values


def is_compiled() -> bool:
    """Whether the first poll need not wait."""
    return compiling.is_compiled(write_predictions)


@kernel
def write_predictions(
    out: NDArray[np.uint8], ends: NDArray[np.int64], known: NDArray[np.uint8], names: NDArray[np.uint8],
    name_size: NDArray[np.int64], told: NDArray[np.uint8], rows: NDArray[np.int64], text: NDArray[np.uint8],
    id_at: NDArray[np.int64], id_size: NDArray[np.int32], seq: NDArray[np.int64], offset: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> int:  # fmt: skip
    """How many were written before one in which a letter must be escaped; `ends` says where each ends.

    `names` are those of the streams and `told` the scores with a comma after each, in order; all other things of a
    prediction are by row.
    """
    begin, of = pointer_to(out), pointer_to(known)
    to, name, score, letters = begin, pointer_to(names), pointer_to(told), pointer_to(text)
    for i in range(len(rows)):
        row = rows[i]
        id_ = letters + id_at[row] if id_size[row] > 0 else 0
        if not is_plain(name, name_size[i]) or (id_ > 0 and not is_plain(id_, int(id_size[row]))):
            return i
        to = put(put_phrase(to, of, FLOW), name, name_size[i])
        name += name_size[i]
        to = put_phrase(to, of, ID)
        if id_ > 0:
            to = put(put_phrase(to, of, QUOTE), id_, int(id_size[row]))
        to = put_phrase(to, of, QUOTE if id_ > 0 else NO_ID)
        to = put_number(put_phrase(to, of, SEQ), seq[row])
        to = put_number(put_phrase(to, of, AT), offset[row])
        comma = next_comma(score)
        to = put(put_phrase(to, of, SCORE), score, comma - score)
        score = comma + 1
        to = put_phrase(put_phrase(to, of, LABEL), of, POSITIVE if scores[i] > 0.0 else NEGATIVE)
        ends[i] = to - begin
    return len(rows)
