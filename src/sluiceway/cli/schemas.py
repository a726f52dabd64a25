"""`sluiceway schemas`: what stands in the topics, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def schemas(
    out: Annotated[Path, typer.Option(help="Where to write; created if missing.", metavar="DIR")] = Path("schemas"),
) -> None:
    """Write JSON Schemas for all records and an AsyncAPI 3 document.

    They go to DIR/json/*.json and DIR/asyncapi.json.

    \b
    sluiceway schemas --out ./schemas
    """
    from sluiceway import __version__
    from sluiceway.errors import SettingsError
    from sluiceway.schemas import asyncapi, records

    try:
        (out / "json").mkdir(parents=True, exist_ok=True)
        records.write_json_schemas(out / "json")
        (out / "asyncapi.json").write_text(asyncapi.text(__version__))
    except OSError as problem:
        raise SettingsError(f"the schemas cannot be written to {out}: {problem.strerror}") from None
    print(f"{len(records.JSON_SCHEMAS)} JSON Schemas in {out / 'json'}, AsyncAPI in {out / 'asyncapi.json'}")
