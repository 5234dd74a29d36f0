"""Control words of characters, paragraphs and tables."""

from collections.abc import Callable

from app.ingestion.parsers.formats.rtf.reader import Handler, OpenTable, RtfReader
from app.ingestion.parsers.formats.rtf.rows import CellDefinition, RowDefinition
from app.ingestion.parsers.formats.rtf.state import Sink
from app.ingestion.parsers.formats.rtf.stories import ParagraphFormat
from app.ingestion.parsers.toolkit.code_pages import CHARACTER_SET_WORDS, find_codec
from app.ingestion.parsers.toolkit.run_text import Position

_MAX_FALLBACK = 100


def _set_font(reader: RtfReader, number: int | None) -> None:
    if reader.open_table is OpenTable.FONTS:
        reader.name_tables.number = number or 0
    elif reader.open_table is OpenTable.NONE:
        reader.set_state(font=number)


def _set_default_font(reader: RtfReader, number: int | None) -> None:
    reader.default_font = number


def _set_charset(reader: RtfReader, number: int | None) -> None:
    reader.name_tables.charset = number


def _set_font_code_page(reader: RtfReader, number: int | None) -> None:
    reader.name_tables.code_page = number


def _set_code_page(reader: RtfReader, number: int | None) -> None:
    reader.codec = find_codec(number)


def _select_character_set(codec: str) -> Handler:
    def select(reader: RtfReader, _: int | None) -> None:
        reader.codec = codec

    return select


def _set_fallback_length(reader: RtfReader, number: int | None) -> None:
    reader.set_state(fallback_length=max(0, min(1 if number is None else number, _MAX_FALLBACK)))


def _reset_characters(reader: RtfReader, _: int | None) -> None:
    reader.set_state(font=None, position=Position.NORMAL, is_hidden=False, is_deleted=False, is_struck=False)


def _set_position(position: Position) -> Handler:
    def set_position(reader: RtfReader, number: int | None) -> None:
        reader.set_state(position=Position.NORMAL if number == 0 else position)

    return set_position


def _switch(name: str) -> Handler:
    def switch(reader: RtfReader, number: int | None) -> None:
        reader.set_state(**{name: number != 0})

    return switch


def _end_paragraph(reader: RtfReader, _: int | None) -> None:
    if reader.state.sink is Sink.STORY:
        reader.story.end_paragraph(reader.state.paragraph, reader.find_level())
    else:
        reader.add_text("\n")


def _break_page(reader: RtfReader, _: int | None) -> None:
    """End the paragraph at a page break inside of its text."""
    is_body = reader.state.sink is Sink.STORY and not reader.state.paragraph.is_in_table
    if is_body and reader.story.has_open_text:
        _end_paragraph(reader, None)


def _reset_paragraph(reader: RtfReader, _: int | None) -> None:
    reader.set_state(paragraph=ParagraphFormat())


def _set_style(reader: RtfReader, number: int | None) -> None:
    if reader.open_table is OpenTable.STYLES:
        reader.name_tables.number = number or 0
    else:
        reader.set_paragraph(style=number or 0)


def _set_outline(reader: RtfReader, number: int | None) -> None:
    if reader.open_table is OpenTable.STYLES:
        reader.name_tables.outline = number
    else:
        reader.set_paragraph(outline=number)


def _enter_table(reader: RtfReader, _: int | None) -> None:
    reader.set_paragraph(is_in_table=True)


def _set_table_depth(reader: RtfReader, number: int | None) -> None:
    if number:
        reader.set_paragraph(is_in_table=True)


def _set_list(reader: RtfReader, number: int | None) -> None:
    reader.set_paragraph(is_in_list=bool(number))


def _start_row(reader: RtfReader, _: int | None) -> None:
    reader.story.definition = RowDefinition()
    reader.cell_flags.clear()


def _open_nested_definition(reader: RtfReader, _: int | None) -> None:
    """Keep the definition of the outer row while a group defines a row of a table in a cell."""
    story = reader.story
    outer = story.definition

    def end() -> None:
        story.definition = outer

    story.definition = RowDefinition()
    reader.end_action = end


def _set_left_edge(reader: RtfReader, number: int | None) -> None:
    reader.story.definition.left = number or 0


def _set_header_row(reader: RtfReader, _: int | None) -> None:
    reader.story.definition.is_header = True


def _add_cell_flag(name: str) -> Handler:
    def add(reader: RtfReader, _: int | None) -> None:
        reader.cell_flags.add(name)

    return add


def _add_cell_definition(reader: RtfReader, number: int | None) -> None:
    flags = reader.cell_flags
    cell = CellDefinition(number or 0, "clmrg" in flags, "clvmgf" in flags, "clvmrg" in flags)
    reader.story.definition.add_cell(cell)
    flags.clear()


def _build_story_handler(end: Callable[[RtfReader], None]) -> Handler:
    def end_build_story_handler(reader: RtfReader, _: int | None) -> None:
        if reader.state.sink is Sink.STORY:
            end(reader)

    return end_build_story_handler


FORMAT_HANDLERS: dict[str, Handler] = {
    **{word: _select_character_set(codec) for word, codec in CHARACTER_SET_WORDS.items()},
    **dict.fromkeys(("par", "sect"), _end_paragraph),
    **dict.fromkeys(("page", "column"), _break_page),
    **{word: _add_cell_flag(word) for word in ("clmrg", "clvmgf", "clvmrg")},
    "ansicpg": _set_code_page,
    "cell": _build_story_handler(lambda reader: reader.story.end_cell()),
    "cellx": _add_cell_definition,
    "cpg": _set_font_code_page,
    "deff": _set_default_font,
    "deleted": _switch("is_deleted"),
    "dn": _set_position(Position.LOWERED),
    "f": _set_font,
    "fcharset": _set_charset,
    "intbl": _enter_table,
    "itap": _set_table_depth,
    "ls": _set_list,
    "nestcell": _build_story_handler(lambda reader: reader.story.end_nested_cell()),
    "nesttableprops": _open_nested_definition,
    "nestrow": _build_story_handler(lambda reader: reader.story.end_nested_row()),
    "nosupersub": _set_position(Position.NORMAL),
    "outlinelevel": _set_outline,
    "pard": _reset_paragraph,
    "plain": _reset_characters,
    "row": _build_story_handler(lambda reader: reader.story.end_row()),
    "s": _set_style,
    "strike": _switch("is_struck"),
    "striked": _switch("is_struck"),
    "sub": _set_position(Position.LOWERED),
    "super": _set_position(Position.RAISED),
    "trhdr": _set_header_row,
    "trleft": _set_left_edge,
    "trowd": _start_row,
    "uc": _set_fallback_length,
    "up": _set_position(Position.RAISED),
    "v": _switch("is_hidden"),
}
"""Functions of the control words of formats."""
