"""``python -m scripts.build_env_example``: write .env.example from the settings classes.

The descriptions, units, limits and readers are those of the fields in ``app/settings``.
"""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from app.settings import EXTERNAL_DESCRIPTIONS, GROUPS, get_reader, get_unit, get_variable_name

EXAMPLE = Path(__file__).parents[1] / ".env.example"
WIDTH = 118
HEADER = """Settings of Carrel. This file is generated from app/settings by `python -m scripts.build_env_example`.

Copy it to .env in the directory in which the service starts, or set the variables in the environment, which overrides
the file. Every setting is optional, and an empty value counts as not set. The value after a name here is the default.
An invalid or unknown CARREL_ variable stops the start with one line that names it.

Values are literal: a $ is a $. Set a secret and its address in the same place: both in this file or both in the
environment."""
COMPOSE_INTRODUCTION = """Variables of docker-compose.yml, which also needs CARREL_OPERATOR_KEY. A password or secret
has letters and digits only; `openssl rand -hex 24` creates one."""
COMPOSE_VARIABLES = {
    "POSTGRES_PASSWORD": "Password of the database's superuser, which only the first start uses.",
    "POSTGRES_OWNER_PASSWORD": "Password of the role that owns the tables.",
    "POSTGRES_RUNTIME_PASSWORD": "Password of the plain role that API and workers use.",
    "S3_ROOT_ACCESS_KEY_ID": "Name of the object store's administrator, which only the creation of the bucket uses.",
    "S3_ROOT_SECRET_ACCESS_KEY": "Secret of the administrator.",
    "S3_ACCESS_KEY_ID": "Name of the object store's user for API and workers, which owns the bucket.",
    "S3_SECRET_ACCESS_KEY": "Secret of the user.",
}


def build_example() -> str:
    """Return the text of .env.example."""
    lines = list(_format_comment(HEADER))
    for group in GROUPS.values():
        title, _, introduction = " ".join((group.__doc__ or "").replace("``", "`").split()).partition(": ")
        lines += ["", "", f"# --- {title} ---", *_format_comment(introduction[0].upper() + introduction[1:])]
        for field in group.model_fields.values():
            lines += [
                "",
                *_format_comment(field.description or ""),
                *(f"# Example: {example}" for example in field.examples or ()),
                *_format_comment(describe_facts(field)),
                f"#{get_variable_name(field)}={format_default(field.default)}",
            ]
    lines += ["", "", "# --- Settings file and client commands ---"]
    for name, description in EXTERNAL_DESCRIPTIONS.items():
        lines += ["", *_format_comment(description), f"#{name}="]
    lines += ["", "", "# --- Docker Compose ---", *_format_comment(COMPOSE_INTRODUCTION)]
    for name, description in COMPOSE_VARIABLES.items():
        lines += ["", *_format_comment(description), f"#{name}="]
    return "\n".join(lines) + "\n"


def _format_comment(text: str) -> Iterator[str]:
    for index, paragraph in enumerate(text.split("\n\n")):
        yield from ["#"] * min(index, 1)
        yield from (f"# {line}" for line in textwrap.wrap(" ".join(paragraph.split()), WIDTH, break_on_hyphens=False))


def describe_facts(field: FieldInfo) -> str:
    """Return the unit, the limits, the choices and the reader of a setting, each as one short sentence."""
    limits = find_limits(field)
    facts = {
        "Unit": get_unit(field),
        "One of": ", ".join(find_choices(field.annotation)),
        **{label: None if value is None else f"{value:,}" for label, value in limits.items()},
        "Read by": get_reader(field),
    }
    return " ".join(f"{label}: {value}." for label, value in facts.items() if value)


def find_limits(field: FieldInfo) -> dict[str, float | None]:
    """Return the limits of a setting by their labels; None for a limit that does not exist."""
    attributes = {
        "Minimum": "ge",
        "More than": "gt",
        "Maximum": "le",
        "Minimum length": "min_length",
        "Maximum length": "max_length",
    }
    values = {
        label: [getattr(item, attribute) for item in field.metadata if hasattr(item, attribute)]
        for label, attribute in attributes.items()
    }
    return {label: value[0] if value else None for label, value in values.items()}


def find_choices(annotation: Any) -> Sequence[str]:
    """Return the values of a ``Literal``, also of an optional one; nothing for other types."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in find_choices(part)]


def format_default(value: Any) -> str:
    """Return a default as the value of a variable; an empty text if there is none."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    EXAMPLE.write_text(build_example())
