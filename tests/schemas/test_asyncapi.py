"""The AsyncAPI document is current, whole, and says of the topics what the settings say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sluiceway import __version__
from sluiceway.flows.settings import TopicsSection
from sluiceway.schemas import asyncapi
from sluiceway.schemas.records import JSON_SCHEMAS
from tests.support.flow import sluiceway

DOCUMENT = asyncapi.document(__version__)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_the_file_is_current() -> None:
    assert asyncapi.FILE.read_text() == asyncapi.text(__version__), "run `sluiceway schemas --out schemas`"


def test_the_command_writes_the_same(tmp_path: Path) -> None:
    done = sluiceway("schemas", "--out", tmp_path / "out")
    assert done.code == 0, done.stderr
    assert (tmp_path / "out" / "asyncapi.json").read_text() == asyncapi.FILE.read_text()
    assert {path.stem for path in (tmp_path / "out" / "json").iterdir()} == set(JSON_SCHEMAS)
    (tmp_path / "file").touch()
    refused = sluiceway("schemas", "--out", tmp_path / "file")
    assert refused.code == 2
    assert "cannot be written to" in refused.sentence


def test_structure() -> None:
    """What AsyncAPI 3.0.0 requires, for the parts that we use."""
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= set(DOCUMENT["info"])
    allowed = {"asyncapi", "info", "defaultContentType", "servers", "channels", "operations", "components"}
    assert set(DOCUMENT) <= allowed
    for server in DOCUMENT["servers"].values():
        assert {"host", "protocol"} <= set(server)
    for channel in DOCUMENT["channels"].values():
        assert {"address", "messages"} <= set(channel)
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        channel = operation["channel"]["$ref"]
        for message in operation["messages"]:
            assert message["$ref"].startswith(f"{channel}/messages/")
    for message in DOCUMENT["components"]["messages"].values():
        assert {"name", "payload"} <= set(message)


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert found
    for reference in found:
        part: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            assert step in part, reference
            part = part[step]
    assert "$defs" not in json.dumps(DOCUMENT)


def test_every_topic_and_every_record_is_described() -> None:
    private = {"state"}  # read by nobody but the flow, whose form it is
    assert set(TopicsSection.model_fields) - private <= set(DOCUMENT["channels"])
    described = set(DOCUMENT["components"]["messages"])
    missing = {name for name in JSON_SCHEMAS if not name.endswith("-line")} - described
    assert not missing, f"add {sorted(missing)} to CHANNELS in schemas/asyncapi.py"
