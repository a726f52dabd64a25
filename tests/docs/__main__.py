"""`python -m tests.docs [--figures --data DIR] [--pictures DIR]`: what `make docs` runs; makes generated parts anew."""

import argparse
import sys
from pathlib import Path

from benchmarks.papers.data import folder
from tests.docs import figures, generate, pictures

parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
parser.add_argument("--figures", action="store_true", help="draw the operators' figures that are missing")
parser.add_argument("--data", type=Path, help="where the data sets for them are (default: $SLUICEWAY_DATA)")
parser.add_argument(
    "--pictures", type=Path, metavar="DIR",
    help="draw docs/images/report.png anew, and the same report light and dark, wide and narrow, into DIR to look at",
)  # fmt: skip
given = parser.parse_args()
if given.figures:
    data = folder(given.data)
    if data is None:
        sys.exit("the figures need the data sets: --data DIR or SLUICEWAY_DATA")
    figures.draw_all(data)
if given.pictures:
    for path in pictures.draw_all(given.pictures):
        print(f"drawn: {path}")
for path in generate.write_all():
    print(f"written: {path}")
