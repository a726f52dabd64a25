"""Sluiceway in a process that dies when told to: `python -m tests.crash.runner [options] -- run flow.toml ...`.

The production code has no hooks for tests. This program patches its seams from outside, then calls the command line:
- `--die POINT:N --how kill|raise|stop|stall`: when a lane comes by POINT for the N-th time, see `placed`;
- `--chunk BYTES`: states are cut into chunks of this size;
- `--pace RECORDS`, `--rhythm SEED`, `--awake LANES`: few records a poll, lanes fed in bursts or not at all;
- `--transaction-seconds S`: a shorter transaction time-out; `--stall-seconds S`: how long `--how stall` lasts;
- `--contend LANES`, `--wrong-order`, `--bug PART`: see `disorder`;
- `--report FILE`: a line of JSON for each event, see `telling`.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluiceway import cli
from sluiceway.flows import process
from sluiceway.topics.kafka_store import KafkaLane
from tests.crash.disorder import BUGS, contend, read_before_fencing
from tests.crash.pace import Pace
from tests.crash.placed import Placed
from tests.crash.seams import Report, wrap
from tests.crash.telling import tell

DEADLINE = 600.0
"""No run takes this long: one that hangs shows where, and ends."""


def shorten_transactions(seconds: float) -> None:
    def around(original: Any) -> Any:
        return lambda **given: original(**{**given, "transaction_seconds": seconds})

    wrap(process, "KafkaOutput", around)


def cut_small(size: int) -> None:
    def around(original: Any) -> Any:
        def init(lane: Any, *given: Any) -> None:
            original(lane, *given)
            lane._chunk = size

        return init

    wrap(KafkaLane, "__init__", around)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.runner")
    parser.add_argument("--die", metavar="POINT:N")
    parser.add_argument("--how", choices=["kill", "raise", "stop", "stall"], default="kill")
    parser.add_argument("--stall-seconds", type=float, default=0.0)
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--pace", type=int)
    parser.add_argument("--rhythm", type=int)
    parser.add_argument("--awake")
    parser.add_argument("--transaction-seconds", type=float)
    parser.add_argument("--contend", type=int)
    parser.add_argument("--wrong-order", action="store_true")
    parser.add_argument("--bug", choices=BUGS)
    parser.add_argument("--report", type=Path)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    given = parse(arguments)
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    report = Report(given.report)
    if given.wrong_order:
        read_before_fencing()
    if given.contend:
        contend(given.contend)
    if given.bug:
        BUGS[given.bug]()
    if given.chunk:
        cut_small(given.chunk)
    if given.die:
        point, _, at = given.die.partition(":")
        Placed(point, int(at), given.how, given.stall_seconds, report).patch()
    tell(report)
    if given.pace:
        awake = None if given.awake is None else {int(lane) for lane in given.awake.split(",")}
        Pace(given.pace, given.rhythm, awake).patch()
    if given.transaction_seconds:
        shorten_transactions(given.transaction_seconds)
    sys.argv = ["sluiceway", *given.command]
    report("started")
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
