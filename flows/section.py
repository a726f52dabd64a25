"""What all sections of the settings file are."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    # what stands under a field is its description in the reference
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, strict=True, use_attribute_docstrings=True
    )
