"""Replaying a recorded window through many variants of a flow, in one pass, and judging what each of them did.

Called, the package does it: `sluiceway.backtest("spam.toml", {"operator.k": [5, 10]})`.

| module | what it is |
|---|---|
| `variants` | the grid: which settings each variant has |
| `window` | the recorded records: from where to where, resolved once |
| `variant_lane` | one lane of one variant: the flow's own processing, its own store |
| `replay` | the pass: poll, decode once, every variant on what was decoded |
| `delay`, `narrow`, `seen_features` | labels withheld; some streams alone; how many features there are |
| `labelled_rows`, `stream_numbers` | the labels that came, and whose, the same for all variants, kept on disk |
| `judgements`, `said` | what each variant had said of them before, kept on disk; all of it read back |
| `measures`, `tallies` | error, kappas, AUC of those; the counts that they are made of, in compiled code |
| `selections` | what was selected when, read from a variant's snapshots, and how steady it was |
| `known` | against the features that are known to matter |
| `differences` | which variant is better, and whether that could be chance |
| `start` | the models to begin with, where a backtest does not begin from nothing |
| `results` | all of it, as Python users have it, and as `results.json` |
| `report`, `tables` | the same as `report.html` and as Parquet |
| `promote` | a variant's models for a live flow |
| `reproduce`, `diff`, `snapshot_file` | a snapshot made again; two of them, or two backtests, side by side |
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluiceway.backtest.results import Results


class _Backtest(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Results:
        """As `sluiceway.backtest.run.backtest`."""
        from sluiceway.backtest.run import backtest

        return backtest(*args, **options)


sys.modules[__name__].__class__ = _Backtest
