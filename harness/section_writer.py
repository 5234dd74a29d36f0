"""Replies of a chat model that enriches documents: summaries, keywords, entities and relations of a received text."""

import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.protocol_servers.chat import ReceivedTextRequest

INVENTED_ENTITY = {"name": "Atlantis Corporation", "type": "organisation", "score": 0.9}
INVENTED_RELATION = {
    "subject": "Ada Lovelace",
    "predicate": "founded",
    "object": "Charles Babbage",
    "evidence": "Ada Lovelace founded the Atlantis Corporation with Charles Babbage.",
}
_NAME = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]+|[王李张][\u4e00-\u9fff]{2}")
_SENTENCE = re.compile(r"[^.。\n]+[.。]")
_KEYWORD = re.compile(r"[a-z]{5,}|[\u4e00-\u9fff]{4}")
_TOKEN = re.compile(r"[^\W\d_]{1,7}|\d{1,2}|[^\w\s]|_")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


def measure_tokens(text: str) -> int:
    """Return the number of tokens of a text by a simple tokenizer: pieces of words and of numbers, and single signs.

    Three Chinese characters have two tokens, as they have on average in the vocabularies of multilingual models.
    """
    return len(_TOKEN.findall(_CHINESE.sub(" ", text))) + round(len(_CHINESE.findall(text)) * 2 / 3)


def read_material(talk: ReceivedTextRequest) -> dict[str, Any]:
    """Return the material of a request of the enrichment."""
    material: dict[str, Any] = json.loads(talk.messages[1]["content"])
    return material


@dataclass
class SectionWriter:
    """Writer of replies about sections, with the wanted keys.

    It copies names, sentences and the beginnings of passages from the text.

    Attributes:
        invents: Whether each reply also has an entity and a relation that the text does not contain.
        texts: Number of requests about each text.
    """

    invents: bool = False
    texts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, talk: ReceivedTextRequest) -> str:
        """Return the reply to a request.

        Args:
            talk: The request.
        """
        material = read_material(talk)
        text = material["text"] or " ".join(material["summaries"])
        with self._lock:
            self.texts[talk.messages[1]["content"]] += 1
        names = list(dict.fromkeys(_NAME.findall(text)))
        sentences = _SENTENCE.findall(text)
        entities: list[dict[str, Any]] = [{"name": name, "type": "person", "score": 0.8} for name in names[:6]]
        relations = self._list_relations(sentences)
        if self.invents:
            entities.append(INVENTED_ENTITY)
            relations.append(INVENTED_RELATION)
        reply: dict[str, Any] = {
            "summary": f"Summary: {' '.join(sentence.strip() for sentence in sentences[:3])[:400] or text[:80]}",
            "keywords": [word for word, _ in Counter(_KEYWORD.findall(text)).most_common(6)],
            "entities": entities,
            "relations": relations,
        }
        if "passages" in material:
            reply["context_lines"] = [self._write_line(passage, material) for passage in material["passages"]]
        wanted = {key: value for key, value in reply.items() if f'- "{key}":' in talk.messages[0]["content"]}
        return json.dumps(wanted, ensure_ascii=False)

    def _write_line(self, passage: dict[str, Any], material: dict[str, Any]) -> dict[str, Any]:
        subject = (material["headings"] or [material["document"]])[-1][:60]
        line = f"This passage of {subject} says what follows: {' '.join(passage['start'].split())[:60]}"
        return {"passage": passage["number"], "line": line}

    def _list_relations(self, sentences: list[str]) -> list[dict[str, Any]]:
        relations: list[dict[str, Any]] = []
        for sentence in sentences:
            names = list(dict.fromkeys(_NAME.findall(sentence)))
            if len(names) > 1 and len(relations) < 3:
                evidence = " ".join(sentence.split())
                ends = {"subject": names[0], "predicate": "works with", "object": names[1]}
                relations.append({**ends, "evidence": evidence})
        return relations
