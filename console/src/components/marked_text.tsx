// A text in which words are marked. All of it is text nodes.
import { useMemo } from "preact/hooks";

const WORD = /[\p{L}\p{N}]+/gu;
/** Shorter words are in nearly every text. */
const SHORTEST = 3;

/** Return the distinct words of texts, without short ones. */
export function listWords(texts: string[]): Set<string> {
  const words = texts.flatMap((text) => text.toLowerCase().match(WORD) ?? []);
  return new Set(words.filter((word) => word.length >= SHORTEST));
}

/** Return the text in pieces; those with an odd index are marked words. */
function splitAtWords(text: string, words: Set<string>): string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!words.has(match[0].toLowerCase())) continue;
    pieces.push(text.slice(end, match.index), match[0]);
    end = match.index + match[0].length;
  }
  return [...pieces, text.slice(end)];
}

export function MarkedText({ text, words }: { text: string; words: Set<string> }) {
  const pieces = useMemo(() => splitAtWords(text, words), [text, words]);
  return <>{pieces.map((piece, index) => (index % 2 ? <mark key={index}>{piece}</mark> : piece))}</>;
}
