"""Lanes of columns, of windows and of instance selectors, fed from plain records, cut and restored at will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluiceway.operators import registry
from sluiceway.operators.stages.column_stream import ColumnStreamConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.selector_stream import SelectorStreamConfig
from sluiceway.operators.stages.streams import Streams
from sluiceway.operators.stages.window_stream import WindowStreamConfig
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll
from tests.stages.lanes import Message, Store, message, new_lane, parsed, polls

AnyDecoder = Decoder | ColumnDecoder


@dataclass
class Given:
    """All that a run gave, as records on their topics."""

    selections: list[OutRecord] = field(default_factory=list)
    verdicts: list[OutRecord] = field(default_factory=list)
    dead_letters: list[OutRecord] = field(default_factory=list)
    finals: list[OutRecord] = field(default_factory=list)

    def add(self, output: LaneOutput) -> None:
        self.selections += output.selections
        self.verdicts += output.verdicts
        self.dead_letters += output.dead_letters
        self.finals += output.finals
        assert not output.predictions


@dataclass(frozen=True)
class Kind:
    """A flow's streams, and what reads its records."""

    config: Streams
    decoder: Callable[[], AnyDecoder]

    def run(self, inputs: Sequence[RawPoll], restore_before: Sequence[int] = ()) -> Given:
        """Feed a lane poll by poll, putting it away and waking it up from its store before some of them."""
        decoder, lane, given, store = self.decoder(), new_lane(self.config), Given(), Store()
        for number, raw in enumerate(inputs):
            if number in restore_before:
                store.commit(lane)
                decoder, lane = self.decoder(), store.lane(self.config)
            given.add(lane.process(decoder.decode(raw)))
        return given

    def whole(self, messages: Sequence[Message]) -> Given:
        return self.run(polls(messages, []))

    def snapshots(self, records: Sequence[Any], stream: str = "s") -> list[dict[str, Any]]:
        given = self.whole([message(stream, record) for record in records])
        return parsed(given.selections + given.finals)


def columns(
    operator: str = "saola", params: dict[str, Any] | None = None, emit: Emit | None = None, *, numbers: bool = False
) -> Kind:
    """The features flow."""
    cls = registry.get(operator).cls
    given = params or {}
    config = ColumnStreamConfig(
        flow="f",
        operator=operator,
        emit=emit or Emit(every=3),
        new_selector=lambda: cls(**given),
        selector_from_state=cls.from_state,
        verdicts=True,
    )
    return Kind(config, lambda: ColumnDecoder(8, target_type="number" if numbers else "class"))


def windows(
    operator: str = "saola", params: dict[str, Any] | None = None, *, size: int, slide: int, max_pending: int = 10_000
) -> Kind:
    """The windowed flow."""
    cls = registry.get(operator).cls
    given = params or {}
    config = WindowStreamConfig(
        flow="f",
        operator=operator,
        new_selector=lambda: cls(**given),
        size=size,
        slide=slide,
        max_pending=max_pending,
    )
    return Kind(config, lambda: Decoder(8))


def selecting(params: dict[str, Any], emit: Emit) -> Kind:
    """The instances flow of the doubly streaming selector."""
    cls = registry.get("saola-stream").cls
    config = SelectorStreamConfig(
        flow="f",
        operator="saola-stream",
        emit=emit,
        new_selector=lambda: cls(**params),
        selector_from_state=cls.from_state,
    )
    return Kind(config, lambda: Decoder(8))
