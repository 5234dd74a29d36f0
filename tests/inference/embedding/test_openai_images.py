"""Images for a multimodal endpoint, in both request forms, against a real HTTP server."""

import numpy as np
import pytest

from app.inference.embedding import EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable, ImageFile
from harness.protocol_servers.embedding import IMAGE_TOKENS, EmbeddingServer
from harness.word_vectors import compute_text_vector
from tests.inference.embedding.conftest import EmbedderOpener
from tests.ingestion.illustrated import square

SOON = "0.01"


def files(*colours: str) -> list[ImageFile]:
    return [ImageFile("image/png", square(colour, (80 + number, 80))) for number, colour in enumerate(colours)]


def unit(text: str) -> np.ndarray:
    vector = np.array(compute_text_vector(text, 64))
    return np.asarray(vector / np.linalg.norm(vector))


@pytest.mark.capability("model-images")
@pytest.mark.parametrize(("form", "sizes"), [("input", [8, 2]), ("messages", [1] * 10)])
async def test_openai_image_vector_is_close_to_its_text(
    server: EmbeddingServer, open_embedder: EmbedderOpener, form: str, sizes: list[int]
) -> None:
    server.image_form = form  # type: ignore[assignment]  # a parameter cannot be a Literal
    embedder = open_embedder(image_format=form, document_prefix="passage: ")
    assert embedder.image_embedder is embedder
    colours = ["red", "green", "blue", "green", "red"] * 2
    pictures = files(*colours)
    made = await embedder.embed_images(pictures)
    assert made.vectors.dtype == np.float32
    assert np.allclose(made.vectors, [unit(colour) for colour in colours], atol=1e-6)
    assert made.tokens == 10 * IMAGE_TOKENS
    assert server.batch_sizes == sizes
    assert [data for request in server.received for data in request.images] == [one.data for one in pictures]
    assert {request.body["model"] for request in server.received} == {"a-model"}
    assert ("input" in server.received[0].body) == (form == "input")


async def test_openai_without_image_setting_has_no_image_embedder(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    assert open_embedder().image_embedder is None
    assert server.request_count == 0


async def test_openai_without_images_sends_no_request(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    made = await open_embedder(image_format="input").embed_images([])
    assert (made.vectors.shape, made.tokens, server.request_count) == ((0, 64), 0, 0)


async def test_openai_image_and_text_batch_sizes_are_separate(
    server: EmbeddingServer, open_embedder: EmbedderOpener
) -> None:
    server.image_form, server.max_batch = "input", 2
    embedder = open_embedder(image_format="input")
    await embedder.embed_images(files(*["red"] * 8))
    assert server.batch_sizes == [8, 4, 2, 2, 2, 2]
    server.reset()
    server.max_batch = None
    await embedder.embed_documents([f"text {number}" for number in range(20)])
    await embedder.embed_images(files(*["red"] * 4))
    assert server.batch_sizes == [20, 2, 2]


@pytest.mark.parametrize("form", ["input", "messages"])
async def test_openai_refused_image_is_named(server: EmbeddingServer, open_embedder: EmbedderOpener, form: str) -> None:
    server.image_form = form  # type: ignore[assignment]  # as above
    server.refused_word = "blue"
    with pytest.raises(EmbeddingRejected, match="does not take this input") as raised:
        await open_embedder(image_format=form).embed_images(files("red", "green", "blue", "red"))
    assert raised.value.fields == {"index": 2, "tokens": 2 * IMAGE_TOKENS}


@pytest.mark.parametrize(("how", "retry_after"), [(429, SOON), (500, SOON), ("nan", None), ("zero", None)])
async def test_openai_image_transient_failure_is_retried(
    server: EmbeddingServer, open_embedder: EmbedderOpener, how: int | str, retry_after: str | None
) -> None:
    server.image_form = "input"
    embedder = open_embedder(image_format="input")
    server.fail(how, retry_after=retry_after)  # type: ignore[arg-type]  # as above
    assert np.allclose((await embedder.embed_images(files("red"))).vectors, [unit("red")], atol=1e-6)
    server.fail(how, times=None, retry_after=retry_after)  # type: ignore[arg-type]  # as above
    server.received.clear()
    with pytest.raises(EmbeddingUnavailable):
        await embedder.embed_images(files("red"), interactive=True)
    assert server.request_count == 2  # a query is not delayed


async def test_openai_image_other_dimension_is_mismatch(server: EmbeddingServer, open_embedder: EmbedderOpener) -> None:
    server.image_form = "input"
    server.fail("dimension")
    with pytest.raises(EmbeddingMismatch, match="65 dimensions"):
        await open_embedder(image_format="input").embed_images(files("red"))


@pytest.mark.parametrize(("told", "tokens"), [(True, IMAGE_TOKENS), (False, 56 * 56)])
async def test_openai_image_tokens_are_reported_or_estimated(
    server: EmbeddingServer, open_embedder: EmbedderOpener, told: bool, tokens: int
) -> None:
    server.image_form, server.reports_usage = "input", told
    assert (await open_embedder(image_format="input").embed_images(files("red"))).tokens == tokens
