"""Values in the wire format of a schema registry -> JSON, whose members a flow's map names.

    0, four bytes of the schema's id, then Avro, JSON, or (after the place of the message in its file) Protobuf

A value that does not begin with that 0 is left as it is. A schema is fetched once. What becomes of a value follows from
its schema as written; what JSON has no form for becomes a text (times, dates, UUIDs) or a number (decimals).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from sluiceway.errors import FlowError, ReopenError, SettingsError, UnreachableError
from sluiceway.schemas.refusal import Refused, cut

Options = Mapping[str, str | int | float | bool]
ToJson = Callable[[bytes], bytes]
"""Of a value without magic byte and id."""

MAGIC = 0
_HEAD = 5
_SECONDS = 10.0
_NOT_FOUND, _DENIED = 404, (401, 403)


class Registry:
    """The schemas of one registry, as far as values have named them; one for each thread."""

    def __init__(self, options: Options) -> None:
        self._client, self._error = _client(options)
        self._where = _shown(str(options["url"]))
        self._readers: dict[bytes, ToJson] = {}

    def close(self) -> None:
        """Its connections."""
        self._client.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def check(self) -> None:
        """`UnreachableError` if there is no registry."""
        try:
            self._client.get_subjects()
        except self._error as problem:
            self._refuse_denied(problem)
            if _is_strange(problem):
                raise self._no_registry(f" (HTTP status {problem.http_status_code})") from None
            raise UnreachableError(f"the schema registry {self._where} answers: {_of(problem)}") from None
        except ValueError as problem:  # what it says is no JSON
            raise self._no_registry("") from problem
        except Exception as problem:
            raise UnreachableError(
                f"no schema registry answers at {self._where} (registry.url): {_of(problem)}"
            ) from None

    def _no_registry(self, status: str) -> UnreachableError:
        return UnreachableError(
            f"what answers at {self._where} (registry.url) is no schema registry{status}: the url goes down to where"
            f" its /subjects are, as https://host/apis/ccompat/v7 does"
        )

    def as_json(self, value: bytes) -> bytes:
        """The value as JSON, or `Refused`; the value itself, if it is in no registry's format."""
        if value[0] != MAGIC or len(value) <= _HEAD:
            return value
        head = value[1:_HEAD]
        reader = self._readers.get(head)
        if reader is None:
            reader = self._readers[head] = self._reader(int.from_bytes(head, "big"))
        return reader(value[_HEAD:])

    def _reader(self, number: int) -> ToJson:
        schema = self._schema(number)
        try:
            match schema.schema_type:
                case "AVRO":
                    return avro_reader(schema.schema_str, self._named(schema))
                case "PROTOBUF":
                    from sluiceway.topics.protobuf import protobuf_reader

                    return protobuf_reader(schema.schema_str, self._named(schema))
                case "JSON":
                    return bytes
        except Refused:
            raise
        except Exception as problem:  # there is no end to what a schema that somebody wrote can be
            raise Refused("bad-schema", f"schema {number} cannot be used: {cut(_of(problem), 200)}") from None
        raise Refused("bad-schema", f"schema {number} is of type {schema.schema_type}: neither Avro, JSON nor Protobuf")

    def _schema(self, number: int) -> Any:
        try:
            return self._client.get_schema(number)
        except self._error as problem:
            self._refuse_denied(problem)
            if problem.http_status_code == _NOT_FOUND and not _is_strange(problem):
                raise Refused("bad-schema", f"the registry has no schema {number}") from None
            said = f"with HTTP status {problem.http_status_code}" if _is_strange(problem) else _of(problem)
            raise ReopenError(f"the schema registry {self._where} answers: {said}") from None
        except Exception as problem:
            raise ReopenError(f"the schema registry {self._where} does not answer: {_of(problem)}") from None

    def _named(self, schema: Any) -> dict[str, str]:
        """The schemas that one refers to, each before those that refer to it, by the name they are referred to by."""
        found: dict[str, str] = {}
        for reference in schema.references or ():
            try:
                other = self._client.get_version(reference.subject, reference.version).schema
            except self._error as problem:
                self._refuse_denied(problem)
                raise
            found |= self._named(other)
            found[reference.name] = other.schema_str
        return found

    def _refuse_denied(self, problem: Any) -> None:
        if problem.http_status_code in _DENIED:
            raise FlowError(
                f"the schema registry {self._where} denies access: {_of(problem)}; [registry] takes its client's"
                ' settings, as "basic.auth.user.info" = "${NAME}:${PASSWORD}"'
            ) from None


def json_reader(options: Options) -> ToJson:
    """What turns values into JSON, with a client of its own."""
    return Registry(options).as_json


def check_registry(options: Options) -> None:
    """`UnreachableError` if there is no registry."""
    with Registry(options) as registry:
        registry.check()


def _client(options: Options) -> tuple[Any, type[Any]]:
    """The client, and what it raises."""
    try:
        with warnings.catch_warnings(record=True):  # of libraries it uses; one of them would not be ignored
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError
    except ImportError as problem:
        raise SettingsError(
            f"[registry] needs packages that are not installed ({problem.name}): pip install 'sluiceway[registry]'"
        ) from None
    try:
        # a lane that is opened again tries again, and says so
        client = SchemaRegistryClient({"max.retries": 0, "timeout": _SECONDS, **options})
    except (ValueError, TypeError) as problem:
        raise SettingsError(f"[registry]: {_of(problem)}") from None
    return client, SchemaRegistryError


def avro_reader(text: str, named: Mapping[str, str]) -> ToJson:
    """Of values from after the schema's id on; `named`: the schemas that it refers to."""
    try:
        from fastavro import parse_schema, schemaless_reader
    except ImportError:
        raise FlowError(
            "the input holds Avro, and fastavro is not installed: nothing of it was used; install it"
            " (pip install 'sluiceway[registry]') and start the flow again"
        ) from None
    known: dict[str, Any] = {}
    for other in named.values():
        parse_schema(orjson.loads(other), named_schemas=known)
    schema = parse_schema(orjson.loads(text), named_schemas=known)

    def read(value: bytes) -> bytes:
        stream = BytesIO(value)
        try:
            record = schemaless_reader(stream, schema, None)
        except Exception as problem:  # the bytes may be anything
            raise Refused("bad-schema", f"the value is not as its schema says: {cut(_of(problem), 200)}") from None
        if stream.read(1):
            raise Refused("bad-schema", "the value is not as its schema says: something follows it")
        return to_json(record)

    return read


def to_json(record: Any) -> bytes:
    """As JSON; a number that is none is refused, as it is in JSON."""
    try:
        written = orjson.dumps(record, default=_plain)
    except (orjson.JSONEncodeError, RecursionError) as problem:
        raise Refused("bad-schema", f"the value cannot be written as JSON: {cut(_of(problem), 200)}") from None
    if b"null" in written:  # which is also what orjson writes for NaN
        _refuse_not_finite(record, "")
    return written


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    raise TypeError(f"a value of type {type(value).__name__}")


def _refuse_not_finite(value: Any, path: str) -> None:
    if type(value) is dict:
        for name, member in value.items():
            _refuse_not_finite(member, f"{path}.{name}" if path else name)
    elif type(value) is list:
        for place, member in enumerate(value):
            _refuse_not_finite(member, f"{path}.{place}")
    elif type(value) is float and not math.isfinite(value):
        raise Refused("bad-feature", f"{path} is {value}, not a finite number")


def _is_strange(problem: Any) -> bool:
    """An answer in no form of a registry's: of a proxy, or of whatever else is there."""
    return bool(problem.error_code == -1)


def _shown(url: str) -> str:
    """Without name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _of(problem: BaseException) -> str:
    said = str(problem) or type(problem).__name__
    return " ".join(said.split())
