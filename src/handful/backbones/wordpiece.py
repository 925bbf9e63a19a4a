"""BERT's uncased tokenizer in plain Python: texts to the numbers of word pieces.

Letters lose their accents and become small; punctuation marks and Chinese characters stand alone; each word is then cut
into the longest pieces that the vocabulary has. Words such as "[SEP]" in a text are plain text, not commands.
"""

from __future__ import annotations

import hashlib
import unicodedata
from functools import lru_cache
from pathlib import Path

VOCABULARY = Path(__file__).parent / "shipped" / "bert_uncased.txt"
SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
MAX_WORD_LETTERS = 100  # a longer word is one unknown piece
CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """The tokenizer. `start` and `end` are the numbers that stand around every text for the network."""

    def __init__(self, vocabulary: Path = VOCABULARY) -> None:
        content = vocabulary.read_bytes()
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise ValueError(f"{vocabulary} is damaged: install handful again")
        words = content.decode("utf-8").split("\n")
        self._number = {word: i for i, word in enumerate(words) if word}
        self._unknown, self.start, self.end = (self._number[word] for word in (UNKNOWN, START, END))
        self._letters = _Letters()
        self._cut = lru_cache(2**16)(self._cut_word)

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of the pieces of a text, without `start` and `end`."""
        words = unicodedata.normalize("NFD", text).translate(self._letters).split()
        return [number for word in words for number in self._cut(word)]

    def _cut_word(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_WORD_LETTERS:
            return (self._unknown,)
        pieces: list[int] = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(len(word), begin, -1):
                number = self._number.get(prefix + word[begin:end])
                if number is not None:
                    break
            else:
                return (self._unknown,)
            pieces.append(number)
            begin = end
        return tuple(pieces)


class _Letters(dict[int, str]):
    """What `str.translate` puts for each character of a decomposed text; filled as characters come up."""

    def __missing__(self, code: int) -> str:
        self[code] = result = _replacement(chr(code))
        return result


def _replacement(letter: str) -> str:
    category = unicodedata.category(letter)
    if letter in "\t\n\r" or category[0] == "Z":
        return " "
    if category == "Mn" or category[0] == "C" or letter == "\ufffd":  # accents, control characters
        return ""
    is_mark = category[0] == "P" or (letter.isascii() and not letter.isalnum())
    if is_mark or any(first <= ord(letter) <= last for first, last in CHINESE):
        return f" {letter} "
    return letter.lower()
