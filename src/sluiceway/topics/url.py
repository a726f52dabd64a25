"""Topic URLs: `kafka://host:9092/name` and `dir:./data/name`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import SettingsError


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic on a broker."""

    bootstrap: str
    name: str

    @property
    def identity(self) -> str:
        """What it is called wherever the broker is found; the broker's own id tells topics of one name apart."""
        return self.name

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap}/{self.name}"


@dataclass(frozen=True, slots=True)
class DirectoryTopic:
    """A directory of JSON-lines partition files."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def identity(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"dir:{self.path}"


Topic = KafkaTopic | DirectoryTopic


def masked(url: str) -> str:
    """For sentences: who a client says it is does not belong into a URL, but may stand there."""
    return re.sub(r"(^|//).*@", r"\1***@", url)


def parse_topic(url: str, relative_to: Path = Path()) -> Topic:
    """Read a topic URL; a relative directory is meant from `relative_to`, where the settings file lies."""
    if url.startswith("kafka://"):
        bootstrap, _, name = url.removeprefix("kafka://").partition("/")
        if "@" in url:
            raise SettingsError(
                f"{masked(url)!r}: a Kafka topic is written kafka://host:port/name; users and passwords are settings of"
                f" the Kafka client, `sasl.username` and `sasl.password`"
            )
        if not re.fullmatch(r"[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*", bootstrap):
            raise SettingsError(f"{url!r}: a Kafka topic is written kafka://host:port/name (or host:port,host:port)")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name):
            raise SettingsError(f"{url!r}: {name!r} is no topic name (letters, digits, '.', '_' and '-' only)")
        return KafkaTopic(bootstrap, name)
    if url.startswith("dir:") and url.removeprefix("dir:"):
        return DirectoryTopic((relative_to / url.removeprefix("dir:")).absolute())
    raise SettingsError(f"{masked(url)!r} is no topic; write kafka://host:9092/name or dir:path/to/directory")
