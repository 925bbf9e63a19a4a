"""EOL as a researcher would write it in torch: one task, autograd, `torch.optim.Adam`, a loop over steps.

The yardstick of `speed.py`, and a second opinion on the arithmetic: it shares no code with handful. It has no
defaults: `_problem.py` tells it and handful the same.
Symbols as in the paper, see `handful/methods/eol.py`.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot


def solve(support: Tensor, labels: Tensor, query: Tensor, **options: float) -> tuple[Tensor, Tensor]:
    """Raw [B, S, D], codes [B, S], raw [B, Q, D] to probabilities [B, Q, N] and outlier scores [B, Q]."""
    solved = [eol(*task, **options) for task in zip(support, labels, query, strict=True)]
    probabilities, scores = zip(*solved, strict=True)
    return torch.stack(probabilities), torch.stack(scores)


def eol(
    support: Tensor, labels: Tensor, query: Tensor, *, b: float, tau: float, steps: int, learning_rate: float
) -> tuple[Tensor, Tensor]:
    """One task: [S, D], [S], [Q, D] to [Q, N], [Q]."""
    ways = int(labels.max()) + 1
    mean = torch.cat([support, query]).mean(dim=0)
    support, query = normalize(support - mean, dim=-1), normalize(query - mean, dim=-1)
    is_class = one_hot(labels, ways).to(support.dtype)  # [S, N]

    c = (is_class.T @ support) / is_class.sum(dim=0)[:, None]
    c.requires_grad_()
    eta = torch.zeros(ways, requires_grad=True)
    delta = torch.zeros(ways, requires_grad=True)
    adam = torch.optim.Adam([c, eta, delta], lr=learning_rate)

    def logits(z: Tensor, c: Tensor) -> Tensor:  # z is of unit length already
        return tau * (eta.exp() * (z @ normalize(c, dim=-1).T) + delta)

    def known(l: Tensor) -> Tensor:
        return torch.sigmoid(l.logsumexp(dim=-1) - log(ways) + log(b))  # pi [M]

    def probabilities(l: Tensor) -> Tensor:
        return known(l)[:, None] * l.softmax(dim=-1)  # [M, N]

    for _ in range(steps):
        p_support, p_query = probabilities(logits(support, c)), probabilities(logits(query, c))
        ce = -(p_support.gather(1, labels[:, None]) + 1e-12).log().mean()
        co = -(p_query * (p_query + 1e-12).log()).sum(dim=-1).mean()
        m = ways / (1 - b) * p_query.mean(dim=0)
        m_out = 1 / b * (1 - p_query.sum(dim=-1)).mean()
        ma = (m * (m + 1e-12).log()).mean() + m_out * (m_out + 1e-12).log()
        loss = ce + co / ways + ma
        adam.zero_grad()
        loss.backward()
        adam.step()

    with torch.no_grad():
        p_support, l_query = probabilities(logits(support, c)), logits(query, c)
        p_query, pi = probabilities(l_query), known(l_query)
        refined = (p_support.T @ support + p_query.T @ query) / (p_support.sum(0) + p_query.sum(0))[:, None]
        return pi[:, None] * logits(query, refined).softmax(dim=-1), 1 - pi
