"""Report of what a parser did not read."""

from app.ingestion.loss import measure_loss
from app.ingestion.types import Block, BlockKind, ParsedDocument
from app.warnings import ServiceWarning, WarningCode


def parsed(words: int, left_out: int) -> ParsedDocument:
    warnings = [
        ServiceWarning(WarningCode.ATTACHMENTS_NOT_READ, "2 attachments were not read.", 2),
        ServiceWarning(WarningCode.FILE_REPAIRED, "The file is damaged."),
    ]
    return ParsedDocument([Block(BlockKind.PARAGRAPH, "word " * words)], warnings=warnings, words_left_out=left_out)


def test_loss_counts_warnings_by_code_and_shares_words() -> None:
    loss = measure_loss(parsed(80, 20))
    assert dict(loss.counts) == {"attachments_not_read": 2}
    assert (loss.words_left_out, loss.left_out_share) == (20, 0.2)
    assert [(warning.code, warning.count) for warning in loss.list_warnings()] == [("words_left_out", 20)]
    assert "20 words, 20% of the file" in loss.list_warnings()[0].message


def test_tenth_of_words_may_be_left_out_without_warning() -> None:
    assert measure_loss(parsed(90, 10)).list_warnings() == []
    assert measure_loss(parsed(90, 0)).left_out_share == 0.0
