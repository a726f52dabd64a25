"""Tables II to IV and XII of the SAOLA paper: how many features each method selects, and how well they classify.

Columns go through the registry's classes in their natural order, in blocks. Accuracy by 1-NN and a decision tree
(CART, where the paper has J48) on the data sets' own test part; leukemia and lung-cancer, whose split the paper does
not give, over ten splits of its sizes. Some printed counts do not follow from the data by any reading known: both
values are shown.

The authors' Alpha-investing takes column 0 for the intercept and always keeps it. The operator's intercept is real, and
no column is kept unseen, so its counts are others; "column 0" is a plain program with the authors' intercept. Wealth
and payout are not printed: of five pairs tried, 0.05 and 0.05 with the authors' intercept give the printed madelon row
(columns 0, 48, 64, 241); so this pair was fitted, not given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from scipy import sparse, stats
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sluiceway.operators.registry import column_selector

BLOCK = 1000
SPLITS = 10
Matrix = Any
"""Dense or sparse, a row an instance."""


class Part(NamedTuple):
    X: Matrix
    y: NDArray[np.int64]


class Printed(NamedTuple):
    """What the paper prints; None where it prints nothing."""

    n: int
    knn: float | None = None
    tree: float | None = None
    expected: tuple[float, float] | None = None
    """The count a correct program gives, from and to; None: no one knows."""
    known: str = ""
    """Why it is not the printed one."""


NO_MAX = "SAOLA-max, discrete: five readings of the max rule gave 13 to 25 on hiva, never the printed value"
INTERCEPT = "Alpha-investing: the authors' program keeps column 0 as its intercept; the operator's intercept is real"
COLUMN_0 = "column 0 on dexter is 0 throughout, which the authors' program divides by; here it explains nothing"
BINARY = "column 0 on hiva and dorothea: not reproduced, cause unknown; no reference value"
SPLIT = "column 0 on lung_cancer: not reproduced over ten splits; the reference range is 22.7 ± 4.5 over ten others"
UNEXPLAINED = "Fast-OSFS, discrete: not reproduced, cause unknown; the paper leaves details of its G2 test open"
BY_COLUMN_0 = "Alpha-investing, column 0"
PAPER: dict[str, dict[str, Printed]] = {
    "madelon": {
        "SAOLA": Printed(3, 0.5617, 0.6083, (3, 3)),
        "SAOLA-max": Printed(3, 0.5617, None, (3, 3)),
        "Fast-OSFS": Printed(3, 0.5283, 0.6100, (3, 3)),
        "Alpha-investing": Printed(4, 0.5767, 0.6067, None, INTERCEPT),
        BY_COLUMN_0: Printed(4, 0.5767, 0.6067, (4, 4)),
    },
    "dexter": {
        "SAOLA": Printed(21, 0.7600, 0.8133, (21, 21)),
        "SAOLA-max": Printed(39, 0.8000, None, (39, 39)),
        "Fast-OSFS": Printed(9, 0.7800, 0.8200, (9, 9)),
        "Alpha-investing": Printed(1, 0.5000, 0.5000, None, INTERCEPT),
        BY_COLUMN_0: Printed(1, 0.5000, 0.5000, (6, 6), COLUMN_0),
    },
    "hiva": {
        "SAOLA": Printed(12, 0.9635, 0.9661, (12, 12)),
        "SAOLA-max": Printed(58, None, None, (21, 21), NO_MAX),
        "Fast-OSFS": Printed(5, 0.9635, 0.9635, None, UNEXPLAINED),
        "Alpha-investing": Printed(48, 0.9531, 0.9635, None, INTERCEPT),
        BY_COLUMN_0: Printed(48, 0.9531, 0.9635, None, BINARY),
    },
    "dorothea": {
        "SAOLA": Printed(63, 0.9613, 0.9343, (63, 63)),
        "SAOLA-max": Printed(516, 0.9171, None, (96, 96), NO_MAX),
        "Fast-OSFS": Printed(5, 0.9457, 0.9371, None, UNEXPLAINED),
        "Alpha-investing": Printed(113, 0.7400, 0.9343, None, INTERCEPT),
        BY_COLUMN_0: Printed(113, 0.7400, 0.9343, None, BINARY),
    },
    "leukemia": {
        "SAOLA": Printed(17, 0.9167, 0.9583, (15.9, 23.9)),
        "SAOLA-max": Printed(70, 1.0000, None, (50.3, 66.3)),
        "Fast-OSFS": Printed(5, 0.7917, 0.9583, (3.5, 5.1)),
        "Alpha-investing": Printed(2, 0.6250, 0.6667, (0.7, 2.9), INTERCEPT),
        BY_COLUMN_0: Printed(2, 0.6250, 0.6667, (0.7, 2.9)),
    },
    "lung_cancer": {
        "SAOLA": Printed(35, 0.9833, 0.9500, (41.0, 51.0)),
        "SAOLA-max": Printed(260, 0.9500, None, (261.0, 290.8)),
        "Fast-OSFS": Printed(6, 0.9667, 0.9000, (6.2, 7.6)),
        "Alpha-investing": Printed(7, 0.9167, 0.8333, (18.2, 27.2), INTERCEPT),
        BY_COLUMN_0: Printed(7, 0.9167, 0.8333, (18.2, 27.2), SPLIT),
    },
}
DISCRETE = ("hiva", "dorothea")
TEST_ROWS = {"leukemia": 24, "lung_cancer": 60}


@dataclass(frozen=True)
class Cell:
    data: str
    method: str
    paper: int
    ours: float
    sd: float
    paper_knn: float | None
    knn: float | None
    paper_tree: float | None
    tree: float | None
    agreement: str
    as_expected: bool

    def row(self) -> dict[str, Any]:
        return asdict(self)


def operator_of(method: str, discrete: bool) -> tuple[str, dict[str, Any]]:
    measure: dict[str, Any] = {"measure": "symmetric-uncertainty", "ties": "strict"} if discrete else {}
    return {
        "SAOLA": ("saola", measure),
        "SAOLA-max": ("saola", {**measure, "bound": "max"}),
        "Fast-OSFS": ("fast-osfs", {"test": "g2"} if discrete else {}),
        "Alpha-investing": ("alpha-investing", {}),
    }[method]


def there(folder: Path) -> list[str]:
    return [data for data in PAPER if (folder / f"{data}.npz").is_file()]


def runs(folder: Path) -> int:
    return sum(len(PAPER[data]) * (SPLITS if data in TEST_ROWS else 1) for data in there(folder))


def tables(folder: Path, advance: Callable[[str], None]) -> Iterator[Cell]:
    """`advance` is called after each run; the cells come as they are done."""
    for data in there(folder):
        splits = list(parts(folder / f"{data}.npz", data))
        for method, printed in PAPER[data].items():
            counts, knn, tree = [], [], []
            for train, test in splits:
                if method == BY_COLUMN_0:
                    chosen = _by_column_0(train)
                else:
                    chosen = _selected(train, *operator_of(method, data in DISCRETE))
                counts.append(len(chosen))
                if test is not None and len(chosen):
                    knn.append(_accuracy(KNeighborsClassifier(1), train, test, chosen))
                    tree.append(_accuracy(DecisionTreeClassifier(random_state=0), train, test, chosen))
                advance(data)
            yield _compared(data, method, printed, counts, knn, tree)


def parts(path: Path, data: str) -> Iterator[tuple[Part, Part | None]]:
    """Training and test part of a data set, as often as the paper's table needs another split."""
    with np.load(path) as arrays:
        kept = dict(arrays)
    if "y_train" in kept:
        yield _part(kept, "_train"), _part(kept, "_test")
    elif data not in TEST_ROWS:
        yield _part(kept, ""), None
    else:
        whole = _part(kept, "")
        splitter = StratifiedShuffleSplit(SPLITS, test_size=TEST_ROWS[data], random_state=0)
        if data == "lung_cancer":  # 121 and 60 of 181
            splitter = StratifiedShuffleSplit(SPLITS, train_size=121, test_size=60, random_state=0)
        for train, test in splitter.split(whole.X, whole.y):
            yield Part(whole.X[train], whole.y[train]), Part(whole.X[test], whole.y[test])


def _part(arrays: dict[str, Any], suffix: str) -> Part:
    if f"X{suffix}" in arrays:
        X: Matrix = arrays[f"X{suffix}"].astype(np.float64)
    else:
        X = sparse.csr_array(
            (arrays[f"data{suffix}"], arrays[f"indices{suffix}"], arrays[f"indptr{suffix}"]),
            shape=tuple(arrays[f"shape{suffix}"]),
        )
    return Part(X, arrays[f"y{suffix}"].astype(np.int64))


def _selected(train: Part, operator: str, params: dict[str, Any]) -> list[int]:
    make: Any = column_selector(operator)
    model = make(**params)
    model.begin(train.y)
    for start, block in _blocks(train.X):
        model.learn_features([*map(str, range(start, start + len(block)))], block)
    return sorted(int(selected.feature) for selected in model.selected)


def _by_column_0(train: Part, wealth: float = 0.05, payout: float = 0.05) -> list[int]:
    """Alpha-investing with column 0 in the place of the intercept: kept without a test, and nothing is centred."""
    left = train.y.astype(np.float64)
    model = np.zeros((len(left), 0))
    chosen: list[int] = []
    for start, block in _blocks(train.X):
        for i, x in enumerate(block, start=start):
            alpha = wealth / (2 * i) if i else 1.0
            wealth -= alpha if i else 0.0
            q = x - model @ (model.T @ x)
            q -= model @ (model.T @ q)
            length = np.linalg.norm(q)
            new = length > 1e-10 * np.linalg.norm(x)
            if new:
                q /= length
                freedom = len(left) - len(chosen) - 1
                r = q @ left / np.linalg.norm(left)
                enters = 2 * stats.t.sf(abs(r) * np.sqrt(freedom / (1 - r * r)), freedom) < alpha
            if i == 0 or (new and enters):
                chosen.append(i)
                wealth += payout if i else 0.0
                if new:
                    model = np.column_stack((model, q))
                    left = left - q * (q @ left)
    return chosen


def _blocks(X: Matrix) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Columns in their natural order, a row each, and the number of the first."""
    columns = X.T if isinstance(X, np.ndarray) else sparse.csr_array(X.T)
    for start in range(0, columns.shape[0], BLOCK):
        block = columns[start : start + BLOCK]
        yield start, np.asarray(block if isinstance(block, np.ndarray) else block.toarray(), dtype=np.float64)


def _accuracy(classifier: Any, train: Part, test: Part, chosen: list[int]) -> float:
    def of(part: Part) -> NDArray[np.float64]:
        X = part.X[:, chosen]
        return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)

    return float(classifier.fit(of(train), train.y).score(of(test), test.y))


def _compared(
    data: str, method: str, printed: Printed, counts: list[int], knn: list[float], tree: list[float]
) -> Cell:
    mean = float(np.mean(counts))
    sd = float(np.std(counts, ddof=1)) if len(counts) > 1 else 0.0
    as_expected = printed.expected is None or printed.expected[0] <= mean <= printed.expected[1]
    if mean == printed.n:
        agreement = "exact"
    elif printed.known:
        agreement = "no (see below)"
    else:
        agreement = "in the range of other splits" if as_expected else "no"
    if not as_expected:
        agreement = f"no: {printed.expected} expected" + (" (see below)" if printed.known else "")
    return Cell(
        data, method, printed.n, mean, sd,
        printed.knn, float(np.mean(knn)) if knn else None,
        printed.tree, float(np.mean(tree)) if tree else None,
        agreement, as_expected,
    )  # fmt: skip


def shown(cells: list[Cell]) -> Table:
    notes = {printed.known: "" for of_one in PAPER.values() for printed in of_one.values() if printed.known}
    table = Table(title="SAOLA: features selected, and accuracy with them (paper / ours)", caption="\n".join(notes))
    for heading in ("data", "method", "features", "1-NN", "tree (J48 / CART)", "agreement"):
        table.add_column(heading, justify="left" if heading in ("data", "method", "agreement") else "right")
    for cell in cells:
        ours = f"{cell.ours:.1f} ± {cell.sd:.1f}" if cell.sd else f"{cell.ours:g}"
        table.add_row(
            cell.data,
            cell.method,
            f"{cell.paper} / {ours}",
            f"{_shown(cell.paper_knn)} / {_shown(cell.knn)}",
            f"{_shown(cell.paper_tree)} / {_shown(cell.tree)}",
            cell.agreement,
            style=None if cell.as_expected else "bold red",
            end_section=cell.method == BY_COLUMN_0,
        )
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
