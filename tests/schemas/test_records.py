"""The typed models themselves, and their JSON Schemas."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from sluiceway.schemas.records import (
    JSON_FOLDER,
    JSON_SCHEMAS,
    Instance,
    InstanceLine,
    LaterLabel,
    Prediction,
    Rules,
    SelectedFeature,
    json_schema,
    read_instance,
)


@pytest.mark.parametrize(("name", "model"), JSON_SCHEMAS.items(), ids=JSON_SCHEMAS)
def test_the_json_schemas_are_current(name: str, model: type[BaseModel]) -> None:
    path = JSON_FOLDER / f"{name}.json"
    assert path.read_text() == json_schema(model), "run sluiceway schemas --out schemas"


def test_no_json_schema_is_left_over() -> None:
    assert {path.stem for path in JSON_FOLDER.iterdir()} == set(JSON_SCHEMAS)


def test_the_examples_of_the_design_are_valid() -> None:
    record = {"id": "e-1842", "ts": 1763251200000, "x": {"free": 0.31, "len": 120}, "y": 1}
    instance = read_instance(record)
    assert isinstance(instance, Instance)
    assert instance.features() == {"free": 0.31, "len": 120.0}
    assert read_instance({"id": "e-1842", "y": 1}) == LaterLabel(id="e-1842", y=1)
    assert read_instance({"x": {}, "y": "ham"}, Rules(classes=["ham", "spam"])).y == "ham"
    assert isinstance(read_instance({"stream": "mail", "x": [1]}, line=True), InstanceLine)


def test_input_and_snapshots_may_carry_more_and_other_output_may_not() -> None:
    assert Instance.model_validate({"x": {}, "colour": "red"}) == Instance(x={})
    prediction = {"flow": "f", "stream": "s", "id": None, "seq": 0, "at": {"partition": 0, "offset": 0}}
    Prediction.model_validate({**prediction, "score": 0.5, "label": 1})
    with pytest.raises(ValidationError, match="colour"):
        Prediction.model_validate({**prediction, "score": 0.5, "label": 1, "colour": "red"})
    more = {"feature": "free", "weight": 1.0, "since": 3, "colour": "red"}
    assert SelectedFeature.model_validate(more) == SelectedFeature(feature="free", weight=1.0, since=3)


def test_records_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Instance(x={}).y = 1  # type: ignore[misc]
