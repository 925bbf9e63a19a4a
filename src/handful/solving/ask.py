"""What to ask next: a few different items whose answers change most.

With p_i the K probabilities of the classes and of unknown, and x the features about their mean, of unit length::

    h_i  = (entropy of p_i / log K)^(1/2)                           how open an item is, from 0 to 1
    k_ij = exp(4 (x_i . x_j - 1))                                   how much an answer about i says about j
    i*   = argmax_i h_i sum_j h_j max(0, k_ij - max_{c chosen} k_cj)

The next item is the one that is open itself and says most about other open items that are not similar to a chosen one.
So items are spread over the pile, and items that resemble nothing come late. To ask about the least sure items alone
helps less than to ask about random ones (benchmarks/results/answers.md). A new group of unknowns has no name yet:
however sure it looks, its items count as at least half open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import at_usual_scale, to_numpy, unit

SHARPNESS = 4.0  # of the similarity
MAX_CANDIDATES = 2000  # items that are compared with each other: the most open ones
GROUP_OPENNESS = 0.5  # of an item in a group of unknowns, at least
RANK_SHARPNESS = 12.0  # of P(unknown) around the threshold, where scores only rank


def worth_asking(
    features: Any, probabilities: Any, count: int, *, groups: Sequence[Any] = (), exclude: Sequence[int] = ()
) -> np.ndarray:
    """The rows of the items that are most worth an answer, `count` at most and the most useful first.

    features [n, D]; probabilities [n, N + 1]: see `belief`; groups: the rows of each group of unknowns; exclude: rows
    that need no answer.
    """
    p = np.asarray(probabilities, np.float64)
    if len(p) != len(features):
        raise ValueError(f"there are {len(features)} items and probabilities of {len(p)}: one row for each is needed")
    open_by = np.sqrt(np.maximum(-(p * np.log(np.maximum(p, 1e-12))).sum(axis=1), 0) / np.log(max(p.shape[1], 2)))
    for rows in groups:
        open_by[rows] = np.maximum(open_by[rows], GROUP_OPENNESS)
    open_by[list(exclude)] = -1.0
    candidates = np.argsort(-open_by, kind="stable")[:MAX_CANDIDATES]
    candidates = np.sort(candidates[open_by[candidates] >= 0])
    x = at_usual_scale(np.asarray(features)[candidates])
    x = unit(x - x.mean(axis=0))
    kernel, h = np.exp(SHARPNESS * (x @ x.T - 1)), open_by[candidates]
    said, is_free, chosen = np.zeros(len(h)), np.ones(len(h), bool), []
    for _ in range(min(count, len(h))):
        gain = h * (np.maximum(kernel - said, 0) @ h)
        best = int(np.argmax(np.where(is_free, gain, -1.0)))
        chosen.append(best)
        is_free[best], said = False, np.maximum(said, kernel[best])
    return np.asarray(candidates[np.array(chosen, int)])


def belief(answers: Answers) -> np.ndarray:
    """The probabilities of the classes and of unknown [n, N + 1]; scores that only rank have 1/2 at the threshold."""
    given_known = to_numpy(answers.class_probabilities).astype(np.float64)
    p_unknown = answers.p_unknown
    if p_unknown is None:
        scores = to_numpy(answers.outlier_scores)
        ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable") / max(1, len(scores))
        at_threshold = (~to_numpy(answers.likely_unknown)).mean() if len(scores) else 0.0
        p_unknown = 1 / (1 + np.exp(-RANK_SHARPNESS * (ranks - at_threshold)))
    return np.column_stack([given_known * (1 - p_unknown[:, None]), p_unknown])
