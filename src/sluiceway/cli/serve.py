"""`sluiceway serve`: selections over HTTP, for people and programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli import log
from sluiceway.cli.log import LogFormat, LogFormatOption, say
from sluiceway.cli.options import KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from sluiceway.serve.guard import Token

TOKEN = "SLUICEWAY_TOKEN"
DEFAULT = "127.0.0.1:9465"


def serve(
    url: Annotated[str, typer.Argument(help="A selections topic, kafka://host:9092/name or dir:path.", metavar="URL")],
    flow: Annotated[str | None, typer.Option(help="Only this flow's.", metavar="NAME")] = None,
    listen: Annotated[
        str, typer.Option(help="Answer there; 0.0.0.0:9465 is for all who reach this machine.", metavar="HOST:PORT")
    ] = DEFAULT,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            help="A name that it is reached by besides localhost, as behind a proxy. May be repeated.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"Who asks must know the token that this file holds, or else the environment's {TOKEN}.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    kafka: KafkaSettings = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Answer over HTTP what is selected now: a live page, JSON, and feature flags.

    The page is for people: streams, selections, timeline, error. Programs ask
    /v1/selections/FLOW/STREAM, or OpenFeature's SDKs by OFREP. It changes
    nothing. SIGTERM or Ctrl-C ends it.

    \b
    sluiceway serve kafka://localhost:9092/selections
    sluiceway serve dir:sluiceway-demo/selections --listen 127.0.0.1:8080
    """
    from sluiceway.cli.listen import parse_address
    from sluiceway.errors import SettingsError

    try:
        from sluiceway.serve.guard import hostname, is_local
        from sluiceway.serve.server import serve as answer
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise SettingsError("serve needs starlette and uvicorn: pip install 'sluiceway[serve]'") from None

    log.begin(log_format)
    address, port = parse_address(listen)
    token = _token(token_file)
    names = []
    for name in host or []:
        names.append(hostname(name) or "")
        if names[-1] != name.lower():
            raise SettingsError(f"--host takes a name, for example selections.example.org, not {name!r}")

    def started(where: str) -> None:
        if token is None and not is_local(address):
            say("whoever reaches this address can read all selections: --token-file asks for a token")
        say(f"the selections of {url} are at {where}")

    answer(url, address, port, flow=flow, names=names, token=token, kafka=kafka_settings(kafka), on_start=started)
    say("stopped")


def _token(file: Path | None) -> Token | None:
    from sluiceway.errors import SettingsError
    from sluiceway.serve.guard import Token

    if file is not None:
        try:
            return Token(file.read_text().strip(), str(file))
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
            raise SettingsError(f"--token-file {file} cannot be read: {reason}") from None
    given = os.environ.get(TOKEN)
    return None if given is None else Token(given, TOKEN)
