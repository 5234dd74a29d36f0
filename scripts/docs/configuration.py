"""The page of settings, from the classes in ``app/settings``."""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.settings import EXTERNAL_DESCRIPTIONS, GROUPS, get_reader, get_unit, get_variable_name
from scripts.build_env_example import find_choices, find_limits, format_default
from scripts.docs.markdown import GENERATED, format_table, format_text

_INTRODUCTION = """# Configuration

The service reads its settings at its start, from `CARREL_*` environment variables and from a settings file. The file is
`.env` in the current directory, or the file that [`CARREL_ENV_FILE`](#carrel_env_file) names. The environment overrides
the file. Options of `carrel serve` override both.

- Every setting is optional. An empty value counts as not set.
- An invalid or unknown `CARREL_` variable stops the start with one line that names it.
- Values are literal: `$` is not replaced.
- Set a secret and its address in the same place: both in the file or both in the environment.

[`.env.example`](../../.env.example) lists all settings in the format of the file. *Read by* names the process that uses
a setting: the API (`carrel serve`) or the worker (`carrel worker`, which `carrel serve` starts too).
"""
VALUE_TYPES: dict[Any, str] = {
    bool: "`true` or `false`",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret",
}


def build_page() -> str:
    """Return the page of all settings."""
    lines = [GENERATED, "", _INTRODUCTION]
    for group in GROUPS.values():
        title, _, introduction = " ".join((group.__doc__ or "").split()).partition(": ")
        lines += [f"## {title}", "", format_text(introduction[:1].upper() + introduction[1:]), ""]
        for field in group.model_fields.values():
            lines += _format_setting(field)
    lines += ["## Settings file and client commands", ""]
    for name, description in EXTERNAL_DESCRIPTIONS.items():
        lines += [f"### `{name}`", "", format_text(description), ""]
    return "\n".join(lines).rstrip() + "\n"


def _format_setting(field: FieldInfo) -> Iterator[str]:
    default = format_default(field.default)
    facts = {
        "Type": describe_type(field),
        "Unit": get_unit(field) or "",
        "Default": f"`{default}`" if default else "not set",
        "Limits": describe_limits(field),
        "Read by": get_reader(field),
        "Example": ", ".join(f"`{example}`" for example in field.examples or ()),
    }
    yield from (f"### `{get_variable_name(field)}`", "", format_text(field.description or ""), "")
    yield from (f"- {label}: {value}" for label, value in facts.items() if value)
    yield ""
    for model in _find_models(field.annotation):
        yield from ("The members of a JSON object:", "")
        yield from format_table(
            ("member", "type", "default", "meaning"),
            (
                (
                    f"`{name}`",
                    ", ".join(filter(None, (describe_type(member), describe_limits(member)))),
                    "required" if member.is_required() else f"`{_format_member_default(member)}`",
                    format_text(member.description or ""),
                )
                for name, member in model.model_fields.items()
            ),
        )


def describe_type(field: FieldInfo) -> str:
    """Return the type of a setting or of a member of a JSON object, as a person writes its value."""
    annotation = field.annotation
    if choices := find_choices(annotation):
        return f"one of {', '.join(f'`{choice}`' for choice in choices)}"
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in (Union, UnionType) and len(parts) == 1:
        annotation = parts[0]
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (tuple, list):
        return "JSON list" if _find_models(annotation) else "texts, separated by commas"
    if _find_models(annotation) or get_origin(annotation) is dict:
        return "JSON object"
    return VALUE_TYPES.get(annotation, "text")


def describe_limits(field: FieldInfo) -> str:
    """Return the limits of a value, for example ``minimum 1, maximum 64``."""
    limits = {label.lower(): limit for label, limit in find_limits(field).items() if limit is not None}
    return ", ".join(f"{label} {limit:,}" for label, limit in limits.items())


def _find_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return list(dict.fromkeys(model for part in get_args(annotation) for model in _find_models(part)))


def _format_member_default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    return "null" if default is None else format_default(default) or '""'
