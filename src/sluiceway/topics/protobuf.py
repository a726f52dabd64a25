"""Protobuf as a schema registry has it: the text of a .proto file -> what reads its messages.

The message classes are made by Google's own compiler from the text. A field without presence (as most of proto3) counts
as given, with its default if need be; one with presence that is not set counts as absent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sluiceway.errors import FlowError
from sluiceway.schemas.refusal import Refused, cut
from sluiceway.topics.registry import to_json

_MAIN = "the-schema-itself.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def protobuf_reader(text: str, named: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Of values from after the schema's id on."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from grpc_tools import protoc
    except ImportError:
        raise FlowError(
            "the input holds Protobuf, and its compiler is not installed: nothing of it was used; install it"
            " (pip install 'sluiceway[registry]') and start the flow again"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in {**named, _MAIN: text}.items():
            file = (Path(folder) / name).resolve()
            if not file.is_relative_to(Path(folder).resolve()):
                raise ValueError(f"it refers to {name!r}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        made = Path(folder) / "made"
        known = Path(protoc.__file__).parent / "_proto"
        options = ["protoc", f"-I{folder}", f"-I{known}", f"--descriptor_set_out={made}", "--include_imports"]
        if protoc.main([*options, str(Path(folder) / _MAIN)]) != 0:
            raise ValueError("it is not Protobuf")
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file_of in files.file:
        pool.Add(file_of)
    main = pool.FindFileByName(_MAIN)
    outer = [main.message_types_by_name[one.name] for one in files.file[-1].message_type]
    classes: dict[bytes, Any] = {}

    def read(value: bytes) -> bytes:
        places, start = _places(value)
        made = classes.get(value[:start])
        if made is None:
            made = classes[value[:start]] = message_factory.GetMessageClass(_message_at(outer, places))
        try:
            message = made.FromString(value[start:])
        except Exception as problem:  # the bytes may be anything
            raise Refused("bad-schema", f"the value is not as its schema says: {cut(str(problem), 200)}") from None
        return to_json(_members(message))

    return read


def _message_at(outer: list[Any], places: list[int]) -> Any:
    found, among = None, outer
    for place in places:
        if not 0 <= place < len(among):
            raise Refused("bad-schema", f"the value is of message {places} of its schema, which there is not")
        found = among[place]
        among = list(found.nested_types)
    return found


def _places(value: bytes) -> tuple[list[int], int]:
    """Which message of the file it is, as the way down to it; and where the message begins."""
    count, at = _varint(value, 0)
    if count == 0:
        return [0], at  # the first one, written in short
    if not 0 < count <= len(value):
        raise Refused("bad-schema", "the value does not say of which message of its schema it is")
    places = []
    for _ in range(count):
        place, at = _varint(value, at)
        places.append(place)
    return places, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A number as Avro and Kafka write it, negative ones too."""
    number = shift = 0
    while at < len(value) and shift < 64:
        number |= (value[at] & 0x7F) << shift
        shift += 7
        at += 1
        if value[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise Refused("bad-schema", "the value does not say of which message of its schema it is")


def _members(message: Any) -> Any:
    name = message.DESCRIPTOR.full_name
    if name == _TIMESTAMP:
        return message.ToJsonString()
    if name in _WRAPPERS:
        return message.value
    made: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if not field.is_repeated:
            made[field.name] = _one(field, value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            made[field.name] = {str(key): _one(inner, one) for key, one in sorted(value.items())}
        else:
            made[field.name] = [_one(field, one) for one in value]
    return made


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _members(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
