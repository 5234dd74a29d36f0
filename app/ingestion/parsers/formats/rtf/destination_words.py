"""Control words of destinations: tables of names, fields, notes, shapes, images and page headers."""

from app.ingestion.parsers.formats.rtf.destinations import FOOTERS, HEADERS, SHAPE_TEXT_PROPERTIES
from app.ingestion.parsers.formats.rtf.equations import create_equation
from app.ingestion.parsers.formats.rtf.fields import FieldState, FormField
from app.ingestion.parsers.formats.rtf.reader import Handler, OpenTable, RtfReader
from app.ingestion.parsers.formats.rtf.state import Sink
from app.ingestion.parsers.formats.rtf.stories import Item, ParagraphFormat, Story
from app.ingestion.parsers.toolkit.alt_text import clean_alt_text
from app.ingestion.parsers.toolkit.omml import format_equation
from app.ingestion.parsers.toolkit.run_text import Position
from app.ingestion.parsers.toolkit.symbol_fonts import replace_symbols
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind

_LABEL_SIGNS = ".)(]["
_MAX_LABEL = 40


def _open_name_table(table: OpenTable) -> Handler:
    def open_table(reader: RtfReader, _: int | None) -> None:
        def end() -> None:
            reader.open_table = OpenTable.NONE

        reader.start_capture()
        reader.open_table, reader.end_action = table, end

    return open_table


def _open_properties(reader: RtfReader, _: int | None) -> None:
    """Leave out the properties of the file; only the title inside of them is read."""
    reader.start_capture()


def _open_title(reader: RtfReader, _: int | None) -> None:
    if reader.state.sink is not Sink.CAPTURE or reader.title:
        return

    def end() -> None:
        reader.title = clean_line(reader.take_capture())

    reader.start_capture()
    reader.end_action = end


def _open_label(reader: RtfReader, _: int | None) -> None:
    """Collect the label of a list item. A label of symbols becomes a hyphen."""

    def end() -> None:
        label = clean_line(reader.take_capture())[:_MAX_LABEL]
        has_number = any(character.isalnum() for character in label.strip(_LABEL_SIGNS)) and label != "o"
        story.label = label if has_number else "-" if label else ""

    story = reader.story
    reader.start_capture(Sink.LABEL)
    reader.end_action = end


def _open_field(reader: RtfReader, _: int | None) -> None:
    field, story = FieldState(), reader.story

    def end() -> None:
        reader.fields.pop()
        if field.is_link_open:
            story.runs.close_link()
        elif not field.has_result and reader.state.sink is Sink.STORY:
            _add_field_result(reader, field)
        if reader.fields and field.has_result:
            reader.fields[-1].has_result = True

    reader.fields.append(field)
    reader.end_action = end


def _add_field_result(reader: RtfReader, field: FieldState) -> None:
    """Add the text of a field without a result: a symbol, an equation, a check box or a choice."""
    symbol = field.find_symbol()
    if symbol is not None:
        code, font = symbol
        text, unknown_count = replace_symbols(chr(min(code, 0xFFFF)), font)
        reader.unread.symbols += unknown_count
        reader.add_text(text)
    elif field.is_equation:
        equation = field.format_equation()
        reader.add_text(equation)
        reader.unread.equations += not equation
    elif field.form is not None:
        reader.add_text(field.form.format_result())


def _open_instruction(reader: RtfReader, _: int | None) -> None:
    if not reader.fields:
        reader.set_state(sink=Sink.SKIPPED)
        return
    field = reader.fields[-1]

    def end() -> None:
        field.instruction.append(reader.take_capture())

    reader.start_capture()
    reader.end_action = end


def _open_result(reader: RtfReader, _: int | None) -> None:
    if reader.fields and reader.state.sink is Sink.STORY and (address := reader.fields[-1].find_address()):
        reader.fields[-1].is_link_open = True
        reader.story.runs.open_link(address)


def _open_form_field(reader: RtfReader, _: int | None) -> None:
    if reader.fields:
        reader.fields[-1].form = FormField()


def _set_form_kind(reader: RtfReader, number: int | None) -> None:
    if reader.fields and (form := reader.fields[-1].form) is not None:
        form.kind = number or 0


def _set_form_result(reader: RtfReader, number: int | None) -> None:
    if reader.fields and (form := reader.fields[-1].form) is not None and number is not None:
        form.result = number


def _set_form_default(reader: RtfReader, number: int | None) -> None:
    if reader.fields and (form := reader.fields[-1].form) is not None:
        form.default = number or 0


def _open_choice(reader: RtfReader, _: int | None) -> None:
    form = reader.fields[-1].form if reader.fields else None

    def end() -> None:
        choice = reader.take_capture().strip()
        if form is not None:
            form.choices.append(choice)

    reader.start_capture()
    reader.end_action = end


def _open_note(reader: RtfReader, _: int | None) -> None:
    reader.note_number += 1
    _open_story(reader, BlockKind.NOTE)
    reader.story.is_note = True


def _open_comment(reader: RtfReader, _: int | None) -> None:
    _open_story(reader, BlockKind.NOTE)


def _open_text_box(reader: RtfReader, _: int | None) -> None:
    _open_story(reader, None)


def _open_story(reader: RtfReader, kind: BlockKind | None) -> None:
    """Read the text of the open group as a separate story, which follows the open paragraph.

    With a kind, the story becomes one block of this kind.
    """
    if reader.state.sink is Sink.SKIPPED:
        return
    outer = reader.story

    def end() -> None:
        items = reader.story.finish(reader.state.paragraph, reader.find_level())
        reader.story = outer
        if kind is not None:
            text = "\n".join(item.text for item in items if item.text)
            items = [Item(kind, text)] if text else []
        outer.following += items

    _start_story(reader)
    reader.end_action = end


def _start_story(reader: RtfReader) -> None:
    reader.story = Story()
    reader.set_state(sink=Sink.STORY, paragraph=ParagraphFormat(), position=Position.NORMAL)


def _open_margin(texts_name: str) -> Handler:
    def open_margin(reader: RtfReader, _: int | None) -> None:
        outer = reader.story

        def end() -> None:
            items = reader.story.finish(reader.state.paragraph, 0)
            reader.story = outer
            getattr(reader, texts_name).extend(item.text for item in items)

        _start_story(reader)
        reader.end_action = end

    return open_margin


def _add_note_mark(reader: RtfReader, _: int | None) -> None:
    """Add the number of a note: in the text before the note, and at the start of the note."""
    if reader.state.sink is not Sink.STORY:
        return
    if reader.story.is_note:
        reader.story.runs.add(f"{reader.note_number} ")
    else:
        reader.story.runs.add_note_mark(str(reader.note_number + 1))


def _open_equation(reader: RtfReader, _: int | None) -> None:
    if reader.state.sink is not Sink.STORY or reader.state.is_hidden or reader.state.is_deleted:
        return
    root, runs = create_equation(), reader.story.runs

    def end() -> None:
        runs.add_apart(format_equation(root))

    reader.set_state(sink=Sink.MATH, equation=root)
    reader.end_action = end


def _open_image(reader: RtfReader, _: int | None) -> None:
    def end() -> None:
        digits = reader.take_capture()
        if reader.state.is_object:
            return
        data = _decode_image(digits) if reader.needs_images else b""
        if data:
            reader.images.append(data)
        else:
            reader.unread.images += 1

    reader.start_capture()
    reader.end_action = end


def _decode_image(digits: str) -> bytes:
    """Return the bytes of an image file in hexadecimal digits; empty if it is no image file."""
    try:
        return bytes.fromhex("".join(digits.split()))
    except ValueError:
        return b""


def _open_object(reader: RtfReader, _: int | None) -> None:
    reader.unread.objects += not reader.state.is_object
    reader.set_state(is_object=True)


def _open_property_name(reader: RtfReader, _: int | None) -> None:
    def end() -> None:
        reader.property_name = reader.take_capture().strip()

    reader.start_capture()
    reader.end_action = end


def _open_property_value(reader: RtfReader, _: int | None) -> None:
    story = reader.story

    def end() -> None:
        value = clean_alt_text(reader.take_capture())
        if reader.property_name in SHAPE_TEXT_PROPERTIES and value:
            story.following.append(Item(BlockKind.PARAGRAPH, value))

    reader.start_capture()
    reader.end_action = end


DESTINATION_HANDLERS: dict[str, Handler] = {
    **{word: _open_margin("headers") for word in HEADERS},
    **{word: _open_margin("footers") for word in FOOTERS},
    **dict.fromkeys(("shptxt", "dptxbxtext"), _open_text_box),
    **dict.fromkeys(("listtext", "pntext"), _open_label),
    "annotation": _open_comment,
    "chftn": _add_note_mark,
    "ffdefres": _set_form_default,
    "ffl": _open_choice,
    "ffres": _set_form_result,
    "fftype": _set_form_kind,
    "field": _open_field,
    "fldinst": _open_instruction,
    "fldrslt": _open_result,
    "fonttbl": _open_name_table(OpenTable.FONTS),
    "footnote": _open_note,
    "formfield": _open_form_field,
    "info": _open_properties,
    "object": _open_object,
    "pict": _open_image,
    "sn": _open_property_name,
    "momath": _open_equation,
    "stylesheet": _open_name_table(OpenTable.STYLES),
    "sv": _open_property_value,
    "title": _open_title,
}
"""Functions of the control words of destinations."""
