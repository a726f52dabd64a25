"""`python -m tests.docs [--figures]`: what `make docs` runs; brings the generated parts up to date."""

import sys

from tests.docs import figures, generate

if "--figures" in sys.argv[1:]:
    figures.draw_all()
for path in generate.write_all():
    print(f"written: {path}")
