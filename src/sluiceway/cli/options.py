"""Arguments that several verbs share, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sluiceway.topics.kafka import Config

KafkaSettings = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        "--kafka",
        help="A setting of the Kafka client in librdkafka's words, as in a flow's kafka section;"
        " ${NAME} is taken from the environment. May be repeated. SLUICEWAY_KAFKA names a file of such lines.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for programs instead of a table for people.")]
Apply = Annotated[bool, typer.Option("--apply", help="Not the flow itself but its `apply`, a flow of its own.")]
Join = Annotated[bool, typer.Option("--join", help="Not the flow itself but its `join`, a flow of its own.")]
Again = Annotated[
    bool, typer.Option("--again", help="Begin the next run of a bounded flow that has ended: read on to its end now.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another value for a setting. May be repeated.", metavar="NAME=VALUE"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def kafka_settings(given: list[str] | None) -> Config:
    """`-X name=value` options as the client's settings."""
    from sluiceway.errors import SettingsError
    from sluiceway.topics.client_settings import fill_in, from_environment

    settings = from_environment()
    for setting in given or []:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise SettingsError("-X takes NAME=VALUE, for example security.protocol=SASL_SSL")  # may be a secret
        settings[name] = fill_in(value, f"-X {name}")
    return settings
