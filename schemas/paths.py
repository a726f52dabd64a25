"""Finding and placing a member of a record by its path: the names of members joined by dots (`payload.after.amount`).

A path holds for objects in objects, and for a single member whose name has the dots in it; an array's places are called
0, 1, 2, ...
"""

from __future__ import annotations

from typing import Any


def find(record: Any, path: str) -> Any:
    """What is there; None if nothing is."""
    found = _member(record, path)
    at = path.find(".")
    while found is None and at >= 0:
        inner = _member(record, path[:at])
        if type(inner) is dict or type(inner) is list:
            found = find(inner, path[at + 1 :])
        at = path.find(".", at + 1)
    return found


def place(record: dict[str, Any], path: str, value: object) -> None:
    """Put a value where `find` finds it, which has found nothing there; objects on the way are made."""
    at = path.find(".")
    while at >= 0 and path not in record:
        inner = record.get(path[:at])
        if type(inner) is dict:
            place(inner, path[at + 1 :], value)
            return
        at = path.find(".", at + 1)
    name, _, rest = path.partition(".")
    if not rest or path in record or record.get(name) is not None:
        record[path] = value
        return
    record[name] = {}
    place(record[name], rest, value)


def _member(record: Any, name: str) -> Any:
    if type(record) is dict:
        return record.get(name)
    return record[int(name)] if name.isdecimal() and int(name) < len(record) else None
