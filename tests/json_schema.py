"""A validator of JSON Schema, as far as our OpenAPI document uses it; it refuses words that it does not know."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_NOTES = {"type", "title", "description", "default", "examples"}


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> list[str]:
    """What is wrong with a value: nothing where it fits."""
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{at}: {value!r} is no {schema['type']}"]  # the other words suppose it
    found: list[str] = []
    for word, wanted in schema.items():
        if word == "$ref":
            target: Any = document
            for part in wanted.removeprefix("#/").split("/"):
                target = target[part]
            found += faults(value, target, document, at)
        elif word == "anyOf":
            if all(faults(value, one, document, at) for one in wanted):
                found.append(f"{at}: {value!r} fits none of {len(wanted)}")
        elif word in ("enum", "const"):
            if value not in (wanted if word == "enum" else [wanted]):
                found.append(f"{at}: {value!r} is not {wanted!r}")
        elif word == "required":
            found += [f"{at}: {name} is missing" for name in wanted if name not in value]
        elif word == "properties":
            for name, one in wanted.items():
                if name in value:
                    found += faults(value[name], one, document, f"{at}.{name}")
        elif word == "additionalProperties":
            for name in set(value) - set(schema.get("properties", ())):
                if wanted is False:
                    found.append(f"{at}: {name} is unknown")
                elif wanted is not True:
                    found += faults(value[name], wanted, document, f"{at}.{name}")
        elif word == "propertyNames":
            for name in value:
                found += faults(name, wanted, document, f"{at}.{name}")
        elif word == "items":
            for i, item in enumerate(value):
                found += faults(item, wanted, document, f"{at}[{i}]")
        elif word in ("minimum", "minItems", "maxItems"):
            size = value if word == "minimum" else len(value)
            if (size > wanted) if word == "maxItems" else (size < wanted):
                found.append(f"{at}: {size} is beyond {word} {wanted}")
        elif word not in _NOTES:
            raise NotImplementedError(word)
    return found


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
