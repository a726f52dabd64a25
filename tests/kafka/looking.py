"""`python -m tests.kafka.looking run flow.toml ...`: the command, which looks at its topics more often than usual."""

from __future__ import annotations

from sluiceway.cli import main
from sluiceway.flows import watch

watch.LOOK_SECONDS = 1.0
watch.CONFIRM_SECONDS = 0.5

if __name__ == "__main__":
    main()
