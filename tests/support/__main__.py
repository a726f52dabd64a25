"""`python -m tests.support`: what `make broker` runs."""

from tests.support.broker import main

main()
