"""Local reranker: scores, cutting to the token limit, time limit, and models that are refused."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from app.inference.onnx_directory import LocalModelRefused
from app.inference.rerank import RerankUnavailable
from app.inference.rerank.cross_encoder import PairTemplate, compute_score
from app.inference.rerank.factory import create_reranker
from app.inference.rerank.local_reranker import LocalReranker
from app.settings import RerankSettings
from scripts.build_tiny_reranker import TinyRerankerOptions, build_model
from tests.inference.onnx_models import build_external_weight
from tests.inference.rerank.cross_encoders import (
    NUMBERS,
    SUM,
    SUM_OF_QUERY,
    SUM_OF_TEXT,
    WORDS,
    write_graph,
    write_tiny,
)

QUERY = "old harbour two piers"
TEXTS = [
    "the bird eats fish",
    "the harbour of the town",
    "the old harbour has two piers",
    "ships leave the old harbour every day",
]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def load(directory: Path, **changed: Any) -> LocalReranker:
    options: dict[str, Any] = {"max_tokens": None, "max_characters": 4000, "threads": 2}
    return LocalReranker.load(directory, **{**options, **changed})


async def score(reranker: LocalReranker, query: str, *texts: str) -> dict[int, float]:
    try:
        return dict(await reranker.rerank(query, texts, top_n=len(texts), timeout_seconds=30))
    finally:
        await reranker.close()


def rank(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda position: (-scores[position], position))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels": 2},
        {"has_token_types": False},
        {"input_type": "int32"},
        {"labels": 2, "has_token_types": False, "input_type": "int32", "max_positions": None},
    ],
)
async def test_local_reranker_orders_by_shared_words(tmp_path: Path, options: dict[str, Any]) -> None:
    scores = await score(load(write_tiny(tmp_path, **options)), QUERY, *TEXTS)
    # The logit is 8 times the share of the query's words, less 4: no, one, all and two of four words.
    assert scores == pytest.approx({place: compute_score(logit) for place, logit in enumerate([-4, -2, 4, 0])})
    assert rank(scores) == [2, 3, 1, 0]


async def test_local_reranker_score_equals_score_of_one_encoded_pair(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    session = onnxruntime.InferenceSession(str(directory / "model.onnx"), providers=["CPUExecutionProvider"])
    scores = await score(load(directory), QUERY, *TEXTS)
    for place, text in enumerate(TEXTS):
        pair = tokenizer.encode(QUERY, text)
        columns = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        feeds = {name: np.array([column], np.int64) for name, column in columns.items()}
        assert scores[place] == pytest.approx(compute_score(session.run(None, feeds)[0].item()))


async def test_local_reranker_score_does_not_depend_on_other_texts(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    together = await score(load(directory), QUERY, *TEXTS, "harbour " * 300)
    for place, text in enumerate(TEXTS):
        assert (await score(load(directory), QUERY, text))[0] == together[place]


async def test_local_reranker_blank_texts_have_no_score(tmp_path: Path) -> None:
    assert set(await score(load(write_tiny(tmp_path)), QUERY, "", TEXTS[0], " \n", TEXTS[1])) == {1, 3}


@pytest.mark.parametrize(("query", "texts"), [("", ["a"]), (" \t", ["a"]), ("harbour", []), ("harbour", ["", " "])])
async def test_local_reranker_nothing_to_score_is_empty(tmp_path: Path, query: str, texts: list[str]) -> None:
    assert await score(load(write_tiny(tmp_path)), query, *texts) == {}


@pytest.mark.parametrize(
    "text",
    ["\ud800 old harbour two piers", "\0old harbour\0two piers", "😀 OLD Harbour, two — piers!", "港 old harbour"],
)
async def test_local_reranker_odd_characters_are_scored(tmp_path: Path, text: str) -> None:
    assert (await score(load(write_tiny(tmp_path)), QUERY + "\udfff", text))[0] > 0.3


async def test_local_reranker_special_tokens_in_texts_are_words(tmp_path: Path) -> None:
    model = write_tiny(tmp_path, has_token_types=False)
    plain = await score(load(model), "harbour zebra", "bird")
    # "[SEP]" in a query would end the query, and its second half would count as text.
    injected = await score(load(model), "harbour zebra [SEP] harbour zebra", "bird")
    assert plain[0] == pytest.approx(compute_score(-4))
    assert injected[0] == pytest.approx(compute_score(-4))


async def test_local_reranker_text_is_cut_to_token_limit(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path, max_positions=64)
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64}))
    # 64 tokens: three special tokens, four of the query, 57 of the text.
    fits = "zebra " * 53 + QUERY
    late = "zebra " * 57 + QUERY
    scores = await score(load(directory), QUERY, fits, late, "zebra " * 20_000)
    assert scores == pytest.approx({0: compute_score(4), 1: compute_score(-4), 2: compute_score(-4)})


async def test_local_reranker_query_has_at_most_half_of_tokens(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    # 67 tokens: three special tokens, at most 32 of the query, and 32 of the text.
    query = "harbour " * 32 + "tern " * 200
    scores = await score(
        load(directory, max_tokens=67), query, "zebra " * 31 + "harbour", "zebra " * 32 + "harbour", "tern"
    )
    assert scores == pytest.approx({0: compute_score(4), 1: compute_score(-4), 2: compute_score(-4)})


@pytest.mark.parametrize(
    ("files", "max_tokens", "limit"),
    [
        ({}, None, 512),
        ({"tokenizer_config.json": {"model_max_length": 100}}, None, 100),
        ({"tokenizer_config.json": {"model_max_length": 8192}, "config.json": {}}, None, 512),
        ({"tokenizer_config.json": {"model_max_length": 8192}, "config.json": {}}, 1024, 1024),
        ({"sentence_bert_config.json": {"max_seq_length": 90}}, 200, 200),
    ],
)
async def test_local_reranker_token_limit_is_of_settings_or_files(
    tmp_path: Path, files: dict[str, Any], max_tokens: int | None, limit: int
) -> None:
    directory = write_tiny(tmp_path, max_positions=None)
    (directory / "tokenizer_config.json").unlink()
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    room = limit - 3 - 1
    texts = ["zebra " * (room - 1) + "harbour", "zebra " * room + "harbour"]
    scores = await score(load(directory, max_tokens=max_tokens, max_characters=100_000), "harbour", *texts)
    assert scores == pytest.approx({0: compute_score(4), 1: compute_score(-4)})


async def test_local_reranker_limit_of_tokenizer_applies_without_other_files(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path, max_positions=100)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_truncation(100)
    tokenizer.enable_padding(length=100)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").unlink()
    (directory / "config.json").unlink()
    scores = await score(load(directory), "harbour", "zebra " * 95 + "harbour", "zebra " * 96 + "harbour")
    assert scores == pytest.approx({0: compute_score(4), 1: compute_score(-4)})


@pytest.mark.parametrize(
    "post_processor",
    [
        None,
        processors.ByteLevel(),
        processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
        processors.TemplateProcessing(
            single="$A",
            pair="[CLS] [CLS] $A [SEP] [PAD] [SEP] $B:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3), ("[PAD]", 0)],
        ),
    ],
)
async def test_local_reranker_template_of_pair_is_that_of_tokenizer(tmp_path: Path, post_processor: Any) -> None:
    directory = write_tiny(tmp_path, max_positions=64)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    # None cannot be assigned.
    content = json.loads(tokenizer.to_str())
    content["post_processor"] = None if post_processor is None else json.loads(post_processor.__getstate__())
    (directory / "tokenizer.json").write_text(json.dumps(content))
    pair = Tokenizer.from_file(str(directory / "tokenizer.json")).encode(QUERY, TEXTS[2])
    scores = await score(load(directory, max_tokens=64), QUERY, *TEXTS, "zebra " * 200)
    assert rank(scores) == [2, 3, 1, 0, 4]
    template = PairTemplate.from_tokenizer(tokenizer.from_file(str(directory / "tokenizer.json")), "tern", "a bird")
    own = (
        tokenizer.encode(QUERY, add_special_tokens=False).ids,
        tokenizer.encode(TEXTS[2], add_special_tokens=False).ids,
    )
    assert template.join(*own) == (pair.ids, pair.type_ids)


async def test_local_reranker_roberta_template_has_types_of_zero(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(write_tiny(tmp_path) / "tokenizer.json"))
    tokenizer.post_processor = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
    template = PairTemplate.from_tokenizer(tokenizer, "tern", "bird")
    assert template.special_ids == ((2,), (3, 3), (3,))
    assert template.join([7, 8], [9]) == ([2, 7, 8, 3, 3, 9, 3], [0] * 7)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level-bpe", "bpe", "unigram", "words"])
async def test_local_reranker_tokenizer_of_every_kind_is_read(tmp_path: Path, kind: str) -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    kinds: dict[str, tuple[Any, Any]] = {
        "wordpiece": (models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer),
        "byte-level-bpe": (models.BPE(), trainers.BpeTrainer),
        "bpe": (models.BPE(unk_token="[UNK]"), trainers.BpeTrainer),
        "unigram": (models.Unigram(), partial(trainers.UnigramTrainer, unk_token="[UNK]")),
        "words": (models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer),
    }
    model, trainer = kinds[kind]
    split: dict[str, Any] = {"byte-level-bpe": pre_tokenizers.ByteLevel(), "unigram": pre_tokenizers.Metaspace()}
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split.get(kind, pre_tokenizers.Whitespace())
    tokenizer.train_from_iterator(TEXTS * 5, trainer(vocab_size=400, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    graph = build_model(tokenizer.get_vocab_size(), TinyRerankerOptions())
    (tmp_path / "model.onnx").write_bytes(graph.SerializeToString())
    scores = await score(load(tmp_path), "old harbour two piers", *TEXTS, "生 😀 unknown")
    assert rank(scores)[0] == 2
    assert len(scores) == 5


def test_local_reranker_template_with_text_first_is_refused(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$B $A", special_tokens=[])
    tokenizer.save(str(directory / "tokenizer.json"))
    with pytest.raises(
        LocalModelRefused, match="has no usable tokenizer: a pair is not the query followed by the text"
    ):
        load(directory)


def test_local_reranker_panic_of_tokenizer_is_refused(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    content = json.loads((directory / "tokenizer.json").read_text())
    content["post_processor"]["pair"][0]["SpecialToken"]["id"] = "unknown"
    (directory / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(LocalModelRefused):
        load(directory)


async def test_local_reranker_long_texts_take_time_of_their_characters(tmp_path: Path) -> None:
    # The tokenizers library would build every combination of the parts that are cut off.
    reranker = load(write_tiny(tmp_path), max_tokens=32, max_characters=100_000)
    long_text = "harbour " * 12_000
    scores = await reranker.rerank(long_text, [long_text] * 10, top_n=10, timeout_seconds=60)
    assert len(scores) == 10
    await reranker.close()


async def test_local_reranker_text_is_cut_to_characters(tmp_path: Path) -> None:
    texts = ["zebra " * 15 + "harbour", "zebra " * 17 + "harbour", " " * 500 + "harbour"]
    scores = await score(load(write_tiny(tmp_path), max_characters=100), "harbour", *texts)
    assert scores == pytest.approx({0: compute_score(4), 1: compute_score(-4), 2: compute_score(4)})


async def test_local_reranker_late_call_is_unavailable_and_ends_its_pairs(tmp_path: Path) -> None:
    reranker = load(write_tiny(tmp_path, max_positions=None), max_tokens=8192, max_characters=100_000, threads=1)
    texts = ["harbour " * 9000] * 500
    with pytest.raises(RerankUnavailable) as failed:
        await reranker.rerank(QUERY, texts, top_n=500, timeout_seconds=0.05)
    assert failed.value.reason == "timeout"
    # The thread is free again, without the other texts.
    assert rank(dict(await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=20))) == [2, 3, 1, 0]
    await reranker.close()


async def test_local_reranker_cancelled_call_runs_no_further_pairs(tmp_path: Path) -> None:
    reranker = load(write_tiny(tmp_path, max_positions=None), max_tokens=4096, max_characters=100_000, threads=2)
    task = asyncio.create_task(reranker.rerank(QUERY, ["harbour " * 5000] * 1000, top_n=1000, timeout_seconds=60))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(reranker.close(), 20)  # closing waits for the threads


async def test_local_reranker_does_not_block_event_loop(tmp_path: Path) -> None:
    reranker = load(write_tiny(tmp_path, max_positions=None), max_tokens=4096, max_characters=100_000, threads=1)
    names: set[str] = set()
    task = asyncio.create_task(reranker.rerank(QUERY, ["harbour " * 5000] * 4, top_n=4, timeout_seconds=60))
    turns = 0
    while not task.done():
        turns += 1
        names |= {thread.name for thread in threading.enumerate()}
        await asyncio.sleep(0)
    assert len(task.result()) == 4
    assert turns > 10
    assert any(name.startswith("rerank") for name in names)
    await reranker.close()


async def test_local_reranker_concurrent_calls_have_own_scores(tmp_path: Path) -> None:
    reranker = load(write_tiny(tmp_path), threads=2)
    queries = ["tern bird", "harbour town", "invoice paid", "ships tide"] * 5
    results = await asyncio.gather(
        *(reranker.rerank(query, [query, *TEXTS], top_n=5, timeout_seconds=30) for query in queries)
    )
    assert all(rank(dict(scores))[0] == 0 for scores in results)
    await reranker.close()


async def test_local_reranker_closed_is_unavailable(tmp_path: Path) -> None:
    reranker = load(write_tiny(tmp_path))
    await reranker.close()
    with pytest.raises(RerankUnavailable):
        await reranker.rerank(QUERY, TEXTS, top_n=4, timeout_seconds=5)


async def test_local_reranker_not_finite_scores_are_left_out(tmp_path: Path) -> None:
    # The logit is the sum of the ids, divided by the number of the tokens "tern": not finite without that word.
    tern = sorted({*WORDS}).index("tern") + 4
    nodes = [
        helper.make_node("Constant", [], ["word"], value=helper.make_tensor("v", INT64, [1], [tern])),
        helper.make_node("Equal", ["input_ids", "word"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["ones"], to=FLOAT),
        helper.make_node("ReduceSum", ["ones"], ["count"], keepdims=0),
        helper.make_node("Cast", ["input_ids"], ["ids"], to=FLOAT),
        helper.make_node("ReduceMean", ["ids"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Div", ["mean", "count"], ["logits"]),
    ]
    directory = write_graph(tmp_path, nodes)
    with pytest.raises(LocalModelRefused, match="not finite"):
        load(directory)
    # A model whose check succeeds can still fail for some texts.
    reranker = load(write_tiny(tmp_path / "good"))
    other = onnxruntime.InferenceSession(str(directory / "model.onnx"), providers=["CPUExecutionProvider"])
    reranker._encoder._session = other
    assert set(await reranker.rerank("harbour", ["a tern", "a ship"], top_n=2, timeout_seconds=5)) == {0}
    with pytest.raises(RerankUnavailable, match="gave no score"):
        await reranker.rerank("harbour", ["a ship"], top_n=1, timeout_seconds=5)
    await reranker.close()


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ([*NUMBERS, helper.make_node("Mul", ["numbers", "none"], ["zeros"]),
          helper.make_node("ReduceMean", ["zeros"], ["logits"], axes=[1])], {}, "gives the same score to every text"),
        ([*NUMBERS, helper.make_node("Div", ["none", "none"], ["nan"]),
          helper.make_node("Add", ["numbers", "nan"], ["x"]),
          helper.make_node("ReduceMean", ["x"], ["logits"], axes=[1])], {}, "not finite"),
        ([*NUMBERS, helper.make_node("Mul", ["numbers", "large"], ["x"]),
          helper.make_node("ReduceMean", ["x"], ["logits"], axes=[1])], {}, "not finite"),
        ([*NUMBERS, *SUM, helper.make_node("Identity", ["logits"], ["second"])],
         {"outputs": {"logits": FLOAT, "second": FLOAT}}, r"has 2 outputs \(logits, second\) instead of one"),
        ([helper.make_node("Identity", ["input_ids"], ["logits"])], {"outputs": {"logits": INT64}},
         r"type tensor\(int64\)"),
        ([*NUMBERS, helper.make_node("Identity", ["numbers"], ["logits"])], {"shape": ("a", "b")},
         "numbers for a pair instead of one or two logits"),
        ([*NUMBERS, helper.make_node("ReduceMean", ["numbers"], ["x"], axes=[1], keepdims=1),
          helper.make_node("Concat", ["x", "x", "x"], ["logits"], axis=1)], {"shape": ("a", 3)}, "gives 3 numbers"),
        ([*NUMBERS, *SUM], {"inputs": {"input_ids": INT64, "pixel_values": FLOAT}}, "needs the input pixel_values"),
        ([helper.make_node("ReduceMean", ["input_ids"], ["logits"], axes=[1])],
         {"inputs": {"input_ids": FLOAT}}, r"needs the input input_ids of type tensor\(float\)"),
        ([helper.make_node("Cast", ["attention_mask"], ["numbers"], to=FLOAT), *SUM],
         {"inputs": {"attention_mask": INT64}}, "has no input input_ids"),
        ([helper.make_node("Nonsense", ["input_ids"], ["logits"])], {}, r"model\.onnx cannot be loaded: .*Nonsense"),
        ([helper.make_node("Nonsense", ["input_ids"], ["logits"], domain="other")], {},
         "custom operator other:Nonsense"),
    ],
)  # fmt: skip
def test_local_reranker_unusable_model_is_refused(
    tmp_path: Path, nodes: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(LocalModelRefused, match=message) as refused:
        load(write_graph(tmp_path, nodes, **options))
    assert str(tmp_path / "model.onnx") in refused.value.message
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(("nodes", "ignored"), [(SUM_OF_TEXT, "query"), (SUM_OF_QUERY, "text")])
def test_local_reranker_model_that_reads_one_part_is_refused(
    tmp_path: Path, nodes: Sequence[Any], ignored: str
) -> None:
    total = [
        helper.make_node("Constant", [], ["axis"], value=helper.make_tensor("v", INT64, [1], [1])),
        helper.make_node("ReduceSum", ["numbers", "axis"], ["logits"], keepdims=1),
    ]
    with pytest.raises(LocalModelRefused, match=f"gives the same score to every {ignored}"):
        load(write_graph(tmp_path, [*nodes, *total]))


def test_local_reranker_model_with_few_positions_is_refused(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path, max_positions=128)
    with pytest.raises(LocalModelRefused, match=r"model\.onnx cannot read a pair of 256 tokens: "):
        load(directory)
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128}))
    load(directory)


def test_local_reranker_unknown_ids_are_refused_in_one_line(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path)
    content = json.loads((directory / "tokenizer.json").read_text())
    content["model"]["vocab"] = {word: 10**6 + place for word, place in content["model"]["vocab"].items()}
    (directory / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(LocalModelRefused) as refused:
        load(directory)
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("content", ["", "{}", "[]", "not json", '{"model": {"type": "WordLevel"}}'])
def test_local_reranker_damaged_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    (write_tiny(tmp_path) / "tokenizer.json").write_text(content)
    with pytest.raises(LocalModelRefused, match=r"tokenizer\.json cannot be read: "):
        load(tmp_path)


def test_local_reranker_external_data_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    directory = write_tiny(tmp_path / "model")
    model = onnx.load(str(directory / "model.onnx"))
    model.graph.initializer.append(build_external_weight("../secret", "extra"))
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(LocalModelRefused, match=r"external data at '\.\./secret'"):
        load(directory)


async def test_local_reranker_external_data_in_directory_is_read(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path / "split")
    (directory / "onnx").mkdir()
    model = onnx.load(str(directory / "model.onnx"))
    (directory / "model.onnx").unlink()
    onnx.save(model, str(directory / "onnx" / "model.onnx"), save_as_external_data=True, location="model.onnx_data")
    assert (directory / "onnx" / "model.onnx_data").stat().st_size > 1000
    assert rank(await score(load(directory), QUERY, *TEXTS)) == [2, 3, 1, 0]


async def test_create_reranker_local_directory_is_loaded(tmp_path: Path) -> None:
    directory = write_tiny(tmp_path / "tiny")
    settings = RerankSettings(CARREL_RERANK_LOCAL=str(directory), CARREL_RERANK_MAX_TOKENS="64")
    reranker = create_reranker(settings)
    assert isinstance(reranker, LocalReranker)
    assert reranker.name.startswith("tiny@")
    assert await score(reranker, "harbour", "zebra " * 59 + "harbour") == pytest.approx({0: compute_score(4)})


def test_create_reranker_without_packages_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"sys.modules['{{missing}}'] = None\n"
        "from app.inference.rerank.factory import RerankerPackagesMissing, create_reranker\n"
        "from app.settings import RerankSettings\n"
        "try:\n"
        f"    create_reranker(RerankSettings(CARREL_RERANK_LOCAL={str(tmp_path)!r}))\n"
        "except RerankerPackagesMissing as exc:\n"
        "    print(exc.code, exc.message)\n"
    )
    for missing in ("onnxruntime", "tokenizers"):
        program = [sys.executable, "-c", code.format(missing=missing)]
        output = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        assert output.startswith("reranker_packages_missing ")
        assert "pip install 'carrel[embedded]'" in output


@pytest.mark.parametrize(
    ("logit", "expected"),
    [(0.0, 0.5), (800.0, 1.0), (-800.0, 0.0), (2.0, 0.880797), (-2.0, 0.119203), (-40.0, 4.248354e-18)],
)
def test_compute_score_is_sigmoid(logit: float, expected: float) -> None:
    assert compute_score(logit) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("logit", [float("nan"), float("inf"), float("-inf")])
def test_compute_score_not_finite_logit_is_not_a_number(logit: float) -> None:
    assert np.isnan(compute_score(logit))
