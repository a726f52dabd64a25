"""The topics as an AsyncAPI 3 document, made from the same models as the JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sluiceway.schemas import encode
from sluiceway.schemas.records import JSON_SCHEMAS

ASYNCAPI = "3.0.0"
KAFKA_BINDING = "0.5.0"
FILE = Path(__file__).parent / "asyncapi.json"
DEAD_LETTER = "dead-letter"

Action = Literal["receive", "send"]


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic: what stands in it, and which command reads or writes it."""

    address: str
    description: str
    key: str
    messages: Sequence[str]
    """Names in `JSON_SCHEMAS`; a dead letter has no schema of its own."""
    operations: Sequence[tuple[Literal["run", "apply", "join"], Action]]
    compacted: bool = False


CHANNELS: dict[str, Channel] = {
    "instances": Channel(
        "instances",
        "Instances to learn from, and later labels of earlier ones.",
        "The stream.",
        ("instance", "later-label"),
        (("run", "receive"), ("apply", "receive"), ("join", "receive")),
    ),
    "labels": Channel(
        "labels",
        "Labels of instances, on a topic of their own.",
        "The stream.",
        ("later-label",),
        (("join", "receive"),),
    ),
    "labelled": Channel(
        "labelled",
        "Instances with the labels that have come for them: what the flow then learns from.",
        "The stream.",
        ("instance",),
        (("join", "send"), ("run", "receive"), ("apply", "receive")),
    ),
    "features": Channel(
        "features",
        "The input of column selectors: a target, then columns.",
        "The stream.",
        ("target", "column"),
        (("run", "receive"),),
    ),
    "selections": Channel(
        "selections",
        "Which features matter now. A record without a value is a tombstone: the stream was retired.",
        "flow/stream.",
        ("snapshot",),
        (("run", "send"), ("apply", "receive")),
        compacted=True,
    ),
    "predictions": Channel(
        "predictions",
        "What the model said of each instance before it learnt from it.",
        "The stream.",
        ("prediction",),
        (("run", "send"),),
    ),
    "verdicts": Channel(
        "verdicts",
        "What became of each column.",
        "The stream.",
        ("verdict",),
        (("run", "send"),),
    ),
    "requests": Channel(
        "requests",
        "Which features the next instances of a stream should carry, and in which order they are looked at.",
        "The stream.",
        ("request",),
        (("run", "send"),),
        compacted=True,
    ),
    "dead_letters": Channel(
        "dead-letters",
        "Records that could not be used, as they came; the reason is in the headers.",
        "The original key.",
        (DEAD_LETTER,),
        (("run", "send"), ("join", "send")),
    ),
    "applied": Channel(
        "applied",
        "Instances with only their selected features, and later labels as they came.",
        "The stream.",
        ("applied", "later-label"),
        (("apply", "send"),),
    ),
}
"""By the name of the setting in `[topics]`; the address is the topic's usual name."""


def document(version: str) -> dict[str, Any]:
    """The AsyncAPI document of this version of Sluiceway."""
    used = sorted({name for channel in CHANNELS.values() for name in channel.messages} - {DEAD_LETTER})
    models: dict[str, type[BaseModel]] = {name: JSON_SCHEMAS[name] for name in used}
    _, schemas = models_json_schema(
        [(model, "validation") for model in models.values()], ref_template="#/components/schemas/{model}"
    )
    messages: dict[str, Any] = {name: _message(name, model) for name, model in models.items()}
    messages[DEAD_LETTER] = _dead_letter()
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Sluiceway",
            "version": version,
            "description": "Feature selection on streams. Names of topics are those of a flow's [topics].",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"broker": {"host": "localhost:9092", "protocol": "kafka"}},
        "channels": {name: _channel(channel) for name, channel in CHANNELS.items()},
        "operations": {
            f"{command}-{action}-{name}": _operation(name, channel, command, action)
            for name, channel in CHANNELS.items()
            for command, action in channel.operations
        },
        "components": {"messages": messages, "schemas": schemas["$defs"]},
    }


def text(version: str) -> str:
    """The document as the text of its file."""
    return json.dumps(document(version), indent=2) + "\n"


def _channel(channel: Channel) -> dict[str, Any]:
    topic: dict[str, Any] = {"bindingVersion": KAFKA_BINDING}
    if channel.compacted:
        topic["topicConfiguration"] = {"cleanup.policy": ["compact"]}
    return {
        "address": channel.address,
        "description": f"{channel.description} Key: {channel.key[0].lower()}{channel.key[1:]}",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in channel.messages},
        "bindings": {"kafka": topic},
    }


def _operation(name: str, channel: Channel, command: str, action: Action) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{name}"},
        "summary": f"`sluiceway {command}` {'reads' if action == 'receive' else 'writes'} it.",
        "messages": [{"$ref": f"#/channels/{name}/messages/{message}"} for message in channel.messages],
    }


def _message(name: str, model: type[BaseModel]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": (model.__doc__ or "").strip().splitlines()[0],
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": KAFKA_BINDING}},
    }


def _dead_letter() -> dict[str, Any]:
    reason = ("class", "message", "stage", "topic", "partition", "offset")
    return {
        "name": DEAD_LETTER,
        "summary": "A record that could not be used: key and value untouched, the reason in the headers.",
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": {encode.ERROR_HEADER + name: {"type": "string"} for name in reason},
            "required": [encode.ERROR_HEADER + name for name in reason],
        },
        "payload": {"description": "Whatever it was."},
        "bindings": {"kafka": {"bindingVersion": KAFKA_BINDING}},
    }
