"""`python -m tests.docs [--figures --data DIR]`: what `make docs` runs; brings the generated parts up to date."""

import argparse
import sys
from pathlib import Path

from benchmarks.papers.data import folder
from tests.docs import figures, generate

parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
parser.add_argument("--figures", action="store_true", help="draw the operators' figures that are missing")
parser.add_argument("--data", type=Path, help="where the data sets for them are (default: $SLUICEWAY_DATA)")
given = parser.parse_args()
if given.figures:
    data = folder(given.data)
    if data is None:
        sys.exit("the figures need the data sets: --data DIR or SLUICEWAY_DATA")
    figures.draw_all(data)
for path in generate.write_all():
    print(f"written: {path}")
