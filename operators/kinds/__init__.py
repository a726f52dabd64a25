"""The kinds of operators: each says what a flow of its operators reads and writes, and drives its streams.

A new kind is a file here and a line below; nothing outside asks which kind an operator is of.
"""

from __future__ import annotations

from sluiceway.operators.kinds.column_selector import COLUMN_SELECTOR
from sluiceway.operators.kinds.instance_selector import INSTANCE_SELECTOR
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.kind import Kind
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.kinds.windowed import WINDOWED

KINDS: tuple[Kind, ...] = (LEARNER, INSTANCE_SELECTOR, COLUMN_SELECTOR, WINDOWED, JOINT)
