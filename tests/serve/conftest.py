from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.snapshots import directory_topic, value
from tests.serve.serving import Served, serving

HOSTILE = '<script>document.title="taken"</script>/"&amp;\' ☃'
"""A name that must stay a name."""


@pytest.fixture(scope="session")
def topic(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three streams of two flows in two partitions, one with a history."""
    mails = [value(100), value(200, features=("gene/TP53", "free"))]
    odd = value(7, stream=HOSTILE, features=(HOSTILE,))
    return directory_topic(
        tmp_path_factory.mktemp("served") / "selections", [*mails, odd], [value(30, flow="fraud", stream="cards/eu")]
    )


@pytest.fixture(scope="session")
def served(topic: str) -> Iterator[Served]:
    with serving(topic) as running:
        yield running
