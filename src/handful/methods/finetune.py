"""Finetune (Baseline++): a cosine classifier trained on the support. Inductive, closed-set.

A classifier by the cosine to one weight vector per class. The vectors start at the class means and are trained by
gradient descent to give the examples their labels. The pile is not used, so items are judged one by one. It shows what
training on the examples alone brings over taking their mean: with good features, little. With one example per class
there is next to nothing to learn from. Its sharper `temperature` makes it surer of everything, so that its doubt ranks
unknowns slightly worse than SimpleShot's. Many `steps` or a large `learning_rate` overfit the few examples.

Chen, Liu, Kira, Wang, Huang: "A Closer Look at Few-shot Classification", 2019. Prototypes c_j start at the class
means and p_i = softmax_j(tau cos(z_i, c_j)); the cross-entropy of the support is minimised by Adam over c.
Outlier score: minus the largest class probability.
"""

from __future__ import annotations

from handful.core.arrays import Array
from handful.core.parameters import Positive, Whole
from handful.engines.descent import descend
from handful.engines.loss import InfoMax
from handful.methods.registry import BY_SHOTS, Backend, Info, Solution, register
from handful.methods.tim_gd import score_new

INFO = Info(
    name="finetune",
    estimator="Finetune",
    title="Finetune (Baseline++)",
    authors="Chen, Liu, Kira, Wang, Huang",
    year=2019,
    paper="A Closer Look at Few-shot Classification (ICLR 2019)",
    setting="closed-set",
    summary="A cosine classifier trained on the support alone.",
    new_items="by the trained prototypes",
    by_shots={"temperature": {"1": 1.0, "5": 10.0}, "steps": {"1": 200, "5": 100}},
    state={"prototypes": "1 N D"},
)


@register(INFO, score_new=score_new, chunk_factor=4)
def finetune(
    support: Array,
    labels: Array,
    query: Array,
    *,
    temperature: Positive = BY_SHOTS,
    steps: Whole = BY_SHOTS,
    learning_rate: Positive = 1e-4,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by a cosine classifier that is trained on the examples alone.

    Parameters
    ----------
    temperature : float, default 1.0 (1 shot) or 10.0 (5 shots)
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 200 (1 shot) or 100 (5 shots)
        Number of steps of Adam.
    learning_rate : float, default 0.0001
        Step size of Adam.
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    end = descend(
        support, labels, query[:, :0], InfoMax(co=[0.0], ma=[0.0], w=[1.0]),
        temperature=temperature, steps=steps, learning_rate=learning_rate, learn=("prototypes",), backend=backend,
    )  # fmt: skip
    state = {"prototypes": end.prototypes}
    return Solution(*score_new(state, query, temperature=temperature), state, n_iter=steps)
