"""The words that speak for some texts against all others, by smoothed log-odds.

For a word w in a group i with counts y_w, against the other texts with counts x_w, and a prior a_w that grows
with the number of texts that have the word (Monroe, Colaresi and Quinn, "Fightin' Words", Political Analysis 2008):

    delta_w = log((y_w + a_w) / (n_i + a - y_w - a_w)) - log((x_w + a_w) / (n_rest + a - x_w - a_w))
    z_w     = delta_w / sqrt(1 / (y_w + a_w) + 1 / (x_w + a_w))

Words are ordered by z, so that a rare word does not win by chance, times 1 - log(texts with w) / log(all texts): a word
that many texts have, such as "the" in English, does not win either. A word that more than a tenth of the other texts
have is none. A text counts once for each of its words, whatever its length. Two neighbouring words stand as one, if
both speak for the group and mostly occur together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

MAX_TEXT_CHARACTERS = 5_000  # of one text, read from its beginning
MIN_TEXT_CHARACTERS = 200  # of one text, even where there are very many
MAX_CHARACTERS = 10_000_000  # of all texts together, about
MAX_WORD_CHARACTERS = 40  # a longer run of letters is no word: base64, a hash
MIN_TEXTS = 2  # of a group that have a telling word; a word of one text says nothing about others
MIN_SCORE = 0.6  # of a telling word
MAX_SHARE_ELSEWHERE = 0.1  # of all other texts have a telling word, but for one text
FEW_TEXTS = 50  # added to the number of texts, so that in a few texts a word may be in most of them
PAIR_COVERS = 0.5  # of the texts of both words have the pair: then it stands for both
PAIR_BALANCE = 0.3  # the lower score of a pair's words against the higher: so "the weather" is "weather"
PRIOR_SHARE, PRIOR_COUNT = 0.1, 0.5  # the prior of a word: this part of its texts, and this many more
ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")  # `_word_pattern`, for texts that need no more: it is faster
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # kana and Han


def telling_words(texts: Sequence[str], groups: Sequence[Any], count: int = 3) -> list[list[str]]:
    """The words of each group of texts that are more frequent in it than in all other texts, the most telling first.

    groups: the texts of each by their places in `texts`; they may overlap. At most `count` words of a group, in lower
    case ("money back" is one), and only such that at least two of its texts have.

    >>> texts = ["Pesos in dollars?", "how many dollars is it", "hi there", "how is it", "dollars to pesos"]
    >>> telling_words(texts, [[0, 1, 4], [2]])
    [['dollars', 'pesos'], []]
    """
    if count < 1 or not len(groups):
        return [[] for _ in groups]
    limit = max(MIN_TEXT_CHARACTERS, min(MAX_TEXT_CHARACTERS, MAX_CHARACTERS // max(1, len(texts))))
    numbers: dict[str, int] = {}
    tokens = [[numbers.setdefault(word, len(numbers)) for word in split_words(text[:limit])] for text in texts]
    lengths = np.array([len(one) for one in tokens], np.int64)
    flat = np.fromiter(chain.from_iterable(tokens), np.int64, int(lengths.sum()))
    owners = np.repeat(np.arange(len(texts)), lengths)
    singles = _Counts.of(flat, owners, len(texts))
    is_pair = (owners[1:] == owners[:-1]) & (flat[1:] != flat[:-1])
    pairs = _Counts.of((flat[:-1] * len(numbers) + flat[1:])[is_pair], owners[1:][is_pair], len(texts))
    spelled = list(numbers)
    return [_choose(np.unique(np.asarray(group, np.int64)), spelled, singles, pairs, count) for group in groups]


def split_words(text: str) -> list[str]:
    """The words of a text in lower case: letters, digits and marks, also with apostrophes inside.

    Chinese and Japanese are written without spaces: there, each character is a word.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    pattern = ASCII_WORD if folded.isascii() else _word_pattern()
    return [word for word in pattern.findall(folded) if len(word) <= MAX_WORD_CHARACTERS]


def join_words(words: Iterable[str]) -> str:
    """Neighbouring words as they are written: with spaces between, but for Chinese and Japanese."""
    return re.sub(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])", "", " ".join(words))


@lru_cache
def _word_pattern() -> re.Pattern[str]:
    """A word begins with a letter or digit. Vowel signs of Hindi, Arabic or Thai are marks, no letters."""
    codes = (n for n in range(0x10000) if not 0xFE00 <= n <= 0xFE0F)  # without emoji's selectors
    marks = "".join(re.escape(chr(n)) for n in codes if unicodedata.category(chr(n)) in ("Mn", "Mc"))
    letter = rf"(?:(?![{UNSPACED}])[^\W_])"
    inside = rf"(?:{letter}|[{marks}\u200c\u200d])"  # Persian and Indian words may have joiners inside
    return re.compile(rf"[{UNSPACED}]|{letter}{inside}*(?:'{letter}{inside}*)*")


@dataclass(frozen=True, eq=False)
class _Counts:
    """Which terms each text has: the terms of at least two texts, and a sparse matrix of texts x terms by rows."""

    terms: np.ndarray  # [T] sorted
    totals: np.ndarray  # [T] how many texts have it
    columns: np.ndarray  # the terms of all texts by their places in `terms`, text by text
    starts: np.ndarray  # [n + 1] where those of a text begin in `columns`

    @classmethod
    def of(cls, flat: np.ndarray, owners: np.ndarray, text_count: int) -> _Counts:
        terms, columns = np.unique(flat, return_inverse=True)
        width = max(1, len(terms))
        places = np.sort(owners * width + columns.reshape(-1))  # sorting is much faster than np.unique here
        owners, columns = np.divmod(places[np.diff(places, prepend=-1) > 0], width)  # a text counts once
        totals = np.bincount(columns, minlength=len(terms))
        common = totals >= MIN_TEXTS
        kept = common[columns]
        owners, columns = owners[kept], (np.cumsum(common) - 1)[columns[kept]]
        return cls(terms[common], totals[common], columns, np.searchsorted(owners, np.arange(text_count + 1)))

    def inside(self, rows: np.ndarray) -> np.ndarray:
        """How many of these texts have each term: [T]."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(self.starts[rows] - before, lengths)
        return np.bincount(self.columns[places], minlength=len(self.terms))

    def scores(self, inside: np.ndarray) -> np.ndarray:
        """z of each term, lowered where many texts have it: [T]."""
        rest = self.totals - inside
        prior = PRIOR_SHARE * self.totals + PRIOR_COUNT
        ours, theirs = inside + prior, rest + prior
        # 1 more: if there is only one word, the others have no part
        other_ours, other_theirs = ours.sum() - ours + 1, theirs.sum() - theirs + 1
        z: np.ndarray = (np.log(ours / other_ours) - np.log(theirs / other_theirs)) / np.sqrt(1 / ours + 1 / theirs)
        z *= 1 - np.log(self.totals) / np.log(len(self.starts) + FEW_TEXTS)
        return z


def _choose(rows: np.ndarray, spelled: Sequence[str], singles: _Counts, pairs: _Counts, count: int) -> list[str]:
    """The words and pairs of one group, the best first; a word of a chosen pair is not chosen again."""
    if not len(rows) or not len(singles.terms):
        return []
    inside = singles.inside(rows)
    scores = singles.scores(inside)
    text_count = len(singles.starts) - 1
    too_common = singles.totals - inside > MAX_SHARE_ELSEWHERE * (text_count - len(rows)) + 1
    scores[too_common] = -np.inf
    best = np.flatnonzero((inside >= MIN_TEXTS) & (scores >= MIN_SCORE))
    candidates = [(float(scores[n]), (int(singles.terms[n]),)) for n in best]
    pairs_inside = pairs.inside(rows)
    often = np.flatnonzero(pairs_inside >= MIN_TEXTS)
    places = np.searchsorted(singles.terms, np.divmod(pairs.terms[often], len(spelled)))  # [2, often]
    more, less = scores[places].max(axis=0, initial=-np.inf), scores[places].min(axis=0, initial=np.inf)
    is_name = (less >= np.maximum(MIN_SCORE, PAIR_BALANCE * more)) & (
        pairs_inside[often] >= PAIR_COVERS * inside[places].max(axis=0, initial=0)
    )
    for score, terms in zip(more[is_name], singles.terms[places[:, is_name]].T, strict=True):
        candidates.append((float(score), tuple(terms.tolist())))
    chosen: list[str] = []
    used: set[int] = set()
    for _, terms in sorted(candidates, key=lambda one: (-one[0], -len(one[1]), one[1])):
        if used.isdisjoint(terms):
            used.update(terms)
            chosen.append(join_words(spelled[term] for term in terms))
            if len(chosen) == count:
                break
    return chosen
