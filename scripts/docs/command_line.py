"""The page of commands, from the Typer commands in ``app/cli``."""

import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from app.cli.commands import COMMANDS, load_command
from scripts.docs.configuration import VALUE_TYPES
from scripts.docs.markdown import GENERATED, format_table, format_text

_INTRODUCTION = """# Commands

`carrel COMMAND --help` prints the same text. [The command line](../how-to/command-line.md) explains how commands find
the service and its key. Every command has the option `--help`.
"""
# Options that override a setting name the default in their help.
_DEFAULT = re.compile(r"\s*\[default: (.+)\]$")
_EXAMPLE = re.compile(r"^Examples?:\s*", re.MULTILINE)


def build_page() -> str:
    """Return the page of all commands."""
    lines = [GENERATED, "", _INTRODUCTION]
    for name in COMMANDS:
        lines += _format_command(f"carrel {name}", load_command(name), 2)
    return "\n".join(lines).rstrip() + "\n"


def _format_command(name: str, command: Any, level: int) -> Iterator[str]:
    text, examples = _split_help(command.help or "")
    yield from ("#" * level + f" `{name}`", "", format_text(text), "")
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from _format_command(f"{name} {child}", subcommand, level + 1)
    if hasattr(command, "commands"):
        return
    if examples:
        yield from ("```text", *examples, "```", "")
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    yield from format_table(
        ("argument or option", "type", "default", "meaning"), (_format_parameter(parameter) for parameter in parameters)
    )


def _split_help(text: str) -> tuple[str, list[str]]:
    """Return the description of a command and the lines of its examples."""
    description, *examples = _EXAMPLE.split(inspect.cleandoc(text).replace("\b", ""))
    lines = [line.strip() for example in examples for line in example.splitlines() if line.strip()]
    return "\n\n".join(" ".join(part.split()) for part in description.split("\n\n")).strip(), lines


def _format_parameter(parameter: Any) -> tuple[str, str, str, str]:
    is_option = parameter.opts[0].startswith("-")
    name = "/".join([*parameter.opts, *parameter.secondary_opts]) if is_option else parameter.name.upper()
    kind, is_list = _describe_type(parameter.type_descriptor.annotation)
    if getattr(parameter, "is_flag", False):
        kind = "flag"
    limits = [
        f"{label} {limit:,}"
        for label, limit in (("minimum", getattr(parameter, "min", None)), ("maximum", getattr(parameter, "max", None)))
        if limit is not None
    ]
    return (
        f"`{name}`",
        ", ".join([kind, *limits, *(["may be repeated"] if is_list else [])]),
        "required" if parameter.required else _format_default(parameter),
        format_text(_DEFAULT.sub("", parameter.help or "")),
    )


def _describe_type(annotation: Any) -> tuple[str, bool]:
    """Return the type of one value, and whether the parameter takes several."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) in (list, tuple):
        return _describe_type(get_args(annotation)[0])[0], True
    if choices := getattr(annotation, "__members__", None):
        return f"one of {', '.join(f'`{choice.value}`' for choice in choices.values())}", False
    return VALUE_TYPES.get(annotation, "text"), False


def _format_default(parameter: Any) -> str:
    default = parameter.default
    if match := _DEFAULT.search(parameter.help or ""):
        return f"`{match[1]}`"
    if default is None or default == "" or default is False or callable(default):
        return ""
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{default.value if hasattr(default, 'value') else default}`"
