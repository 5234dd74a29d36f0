"""Form controls of OpenDocument files: values, check boxes and choices."""

from app.ingestion.parsers.formats.odf.names import get_attribute, get_name
from app.ingestion.parsers.toolkit.safe_xml import Element

_MAX_CHARACTERS = 10_000


def read_controls(root: Element) -> dict[str, str]:
    """Return the texts of the form controls of a file by their ids."""
    texts = {}
    for element in root.iter("{urn:oasis:names:tc:opendocument:xmlns:form:1.0}*"):
        identifier = get_attribute(element, "form:id") or get_attribute(element, "xml:id")
        if identifier:
            texts[identifier] = _read_control(element)
    return texts


def _read_control(control: Element) -> str:
    kind, label = get_name(control), get_attribute(control, "form:label")
    if kind == "form:checkbox":
        state = get_attribute(control, "form:current-state") or get_attribute(control, "form:state")
        return f"{'☒' if state == 'checked' else '☐'} {label}".strip()
    if kind == "form:radio":
        selected = get_attribute(control, "form:current-selected") or get_attribute(control, "form:selected")
        return f"{'☒' if selected == 'true' else '☐'} {label}".strip()
    if kind == "form:listbox":
        options = [child for child in control if get_name(child) == "form:option"]
        chosen = [
            option
            for option in options
            if (get_attribute(option, "form:current-selected") or get_attribute(option, "form:selected")) == "true"
        ]
        return ", ".join(
            get_attribute(option, "form:label") or get_attribute(option, "form:value") for option in chosen
        )
    value = get_attribute(control, "form:current-value") or get_attribute(control, "form:value")
    return (value or label)[:_MAX_CHARACTERS]


def read_field_mark(mark: Element) -> str:
    """Return the state of a form field that comes from an old Word file; empty for a field of text."""
    kind = get_attribute(mark, "field:type").rpartition(".")[2]
    parameters = [
        (get_attribute(part, "field:name"), get_attribute(part, "field:value"))
        for part in mark
        if get_name(part) == "field:param"
    ]
    values = dict(parameters)
    if kind == "FORMCHECKBOX":
        return "☒" if values.get("Checkbox_Checked") == "true" else "☐"
    if kind == "FORMDROPDOWN":
        choices = [value for name, value in parameters if name == "Dropdown_ListEntry"]
        selected = values.get("Dropdown_Selected", "")
        return choices[int(selected)] if selected.isdecimal() and int(selected[:9]) < len(choices) else ""
    return ""
