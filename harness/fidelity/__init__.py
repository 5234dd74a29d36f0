"""Files of all formats with the texts that must survive ingestion."""

from collections.abc import Iterator

from harness.fidelity.cases import FidelityCase
from harness.fidelity.office_files import iter_documents, iter_presentations, iter_workbooks
from harness.fidelity.pdf_files import iter_pdfs
from harness.fidelity.text_files import iter_data, iter_markdown, iter_pages, iter_texts


def iter_cases() -> Iterator[FidelityCase]:
    """Yield all cases of the repository."""
    yield from iter_pages()
    yield from iter_markdown()
    yield from iter_texts()
    yield from iter_data()
    yield from iter_documents()
    yield from iter_presentations()
    yield from iter_workbooks()
    yield from iter_pdfs()
