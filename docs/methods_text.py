r"""The texts that `build.py` cannot read from the registry: each method in plain words, and its equations.

Symbols are those of the files in src/handful/methods. Names of parameters are in `backquotes`, and the tests look
them up. Equations are LaTeX as GitHub renders it.
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    full_name: str
    paragraph: str  # 60 to 120 words: what it does, when it is good, where it fails
    equations: str


OPENING = r"""
A *method* takes one task (a handful of labelled examples, the *support*, and a pile of unlabelled items, the *query*)
and answers two questions for each item of the pile: which known class is it most like, and how likely is it to belong
to none? It works in three steps. **Prepare**: features are centred and scaled as the method expects. **Solve**: an
*inductive* method learns from the support alone, a *transductive* one from the support and the whole pile together.
**Score**: each item gets a probability for each class and an outlier score, high meaning unknown. An *open-set* method
models the unknown; a *closed-set* one knows classes only, and its doubt (minus the largest class probability) serves
as outlier score; a *detector* gives an outlier score only, and takes its classes from SimpleShot.

In these lines, `support`, `labels` and `query` are the features and labels of your examples and the features of your
pile; here they are digits. `X` and `y` are examples and pile together, with -1 as the label of the pile.

```python
import numpy as np
import handful
from handful.features import Protocol, digits, draw

task = draw(*digits(), Protocol(queries=20, outlier_queries=10), tasks=[0]).task[0]
support, labels, query = task.support[0], task.labels[0], task.query[0]
X, y = np.concatenate([support, query]), np.concatenate([labels, np.full(len(query), -1)])

result = handful.solve(support, labels, query)  # the method "auto", which is EOL + KDO
result = handful.solve(support, labels, query, method="eol", outlier_share=0.3)
result = handful.solve(support, labels, query, method="simpleshot+knn")  # classes of the first, scores of the second
model = handful.make_estimator("tim_gd+entropy").fit(X, y)  # or a score of the first one's own probabilities
model.predict(query[:3])  # new items
```

**Pairs.** Any two names joined by `+` make a pair: classes come from the first method, outlier scores from the second,
each on features prepared its own way. The second may also be `maxprob` (minus the largest class probability) or
`entropy`, scores of the first one's class probabilities. The second method's parameters carry its name:
`knn_k=1`.

**New items** are items that were not in the pile. `predict` and `score_samples` of a fitted estimator score them by
what was learned: nothing is refitted, and an item gets the same answer alone and together with others. Each section
says how.

**Base classes.** Some methods learn from the classes that the backbone was trained on, before any task. They take
`base`, a `handful.methods.Base` or the path of its file: the mean of the base classes' features, heads learned on
tasks drawn from them, and a sample of items. `handful base features-of-base-classes.parquet -o base.safetensors` makes
one, `handful train` writes one next to the backbone, and `handful bench --base` takes either features or such a file. A
quarter of the base classes is held out while a head learns, chooses the step that is kept, and says what it is worth.
In Python: `handful.solve(support, labels, query, method="snatcher_f", base="base.safetensors")`.

**Unknown or not.** With a score of the kind *probability* an item is unknown where that is more probable than its
closest class. A score of the kind *rank* means something by its order alone: the `outlier_share` of the pile with the
highest scores is called unknown. If you do
not give that share, it is [estimated](../explanation/outlier-share.md). Conformal novelty decides itself, by a
false-discovery rate, unless you give the share. `threshold` overrides all of these.
""".strip()

PREPARATION = r"""
**Preparation.** `base`: subtract the mean feature of the backbone's training set, given as `base_mean`; without it, as
`task`. `task`: subtract the mean of the task's own features. `l2`: divide by the L2 norm. `power(0.5)`: the square root
of what is positive. `signed(0.6)`: $|z|^{0.6}$ with the sign of $z$. `qr`: an exact rotation to as many dimensions as
there are items. `preparation="none"` or any other list of steps replaces a method's own.
""".strip()

SYMBOLS = r"""
**Symbols.** $z_i$ is a prepared item, $q_i$ one of the pile; $S$ is the support, $Q$ the pile, $y$ the label of an
example, $j$ one of $N$ classes, $c_j$ its prototype, which starts at the class mean; $p_{ij}$ is a class probability,
$o_i$ the outlier score; $H$ is the entropy, $\mathrm{CE}$ the cross-entropy, $\tau$ the temperature.
""".strip()

PICTURES = r"""
**The pictures** show one toy task: three classes of the plane with five examples each (large, edged in black), and a
pile of 60 items of these classes and 40 outliers, in two clusters and at random places. Pile items are dots in the
colour of the class they were given, or crosses where called unknown; a red ring marks a wrong decision. The ground
shows what the method says of *new* items there: the hue is the class, and it fades to grey in ten steps with the share
of the pile that scores lower, so that methods can be compared; the line is the threshold. Each method got the true
share of outliers. All methods get the same 63 features of the plane, Gaussian bumps on a grid, and each prepares them
in its own way. A toy task in the plane shows how a method works, not how good it is on features of a real backbone.
""".strip()

SIMPLESHOT = r"\\ p_{ij} &= \mathrm{softmax}_j\, \cos(q_i, c_j) \qquad \text{as SimpleShot}"

TEXT = {
    "eol": Words(
        "Enhanced Outlier Logits",
        """
        Starts from the mean of each class's examples and moves these prototypes, with a scale and a shift for each
        class, until three things hold: the examples get their own labels, every item of the pile is decided clearly,
        and the unknown part of the pile has the share given as `outlier_share`. If that share is roughly right, it
        finds unknowns better than all other methods here, also with one example per class or where most of the pile is
        unknown. It relies on the share: if the share is far off, it still calls about that share unknown, and ranks
        unknowns worse than kNN. With few unknowns in the pile its advantage is small or gone.
        """,
        r"""
        l_{ij} &= \tau \left( e^{\eta_j} \cos(z_i, c_j) + \delta_j \right) \\
        \pi_i &= \mathrm{sigmoid} \left( \mathrm{logsumexp}_j\, l_{ij} - \log N + \log b \right), \qquad
            p_{ij} = \pi_i\, \mathrm{softmax}_j(l_{ij}) \\
        \mathrm{CE} &= -\mathrm{mean}_S\, \log p_{iy}, \qquad
            \mathrm{CO} = -\mathrm{mean}_Q\, \textstyle\sum_j p_{ij} \log p_{ij} \\
        \mathrm{MA} &= \tfrac{1}{N} \textstyle\sum_j m_j \log m_j + m_{\mathrm{out}} \log m_{\mathrm{out}}, \qquad
            m_j = \tfrac{N}{1 - b}\, \mathrm{mean}_Q\, p_{ij}, \quad
            m_{\mathrm{out}} = \tfrac{1}{b}\, \mathrm{mean}_Q\, (1 - \pi_i) \\
        \mathrm{loss} &= \lambda_{\mathrm{ce}}\, \mathrm{CE} + \tfrac{\lambda_{\mathrm{co}}}{N} \mathrm{CO}
            + \lambda_{\mathrm{ma}}\, \mathrm{MA} \qquad \text{by Adam over } c, \eta, \delta \\
        c'_j &= \textstyle\sum_{S, Q} p_{ij} z_i \,/ \sum_{S, Q} p_{ij} \qquad \text{once, at the end} \\
        p_{ij} &= \pi_i\, \mathrm{softmax}_j(l_{ij} \text{ with } c'), \qquad o_i = 1 - \pi_i \\
        \mathrm{share} &= b\, e^{\lambda b - 1}, \qquad
            (1 - b)\, e^{\lambda (1 - b) - 1} + b\, e^{\lambda b - 1} = 1
            \qquad \text{gives } b \text{ for the share you say}
        """,
    ),
    "eol_kdo": Words(
        "EOL and KDO, and a verdict",
        """
        This is the default. It combines two methods that fail in different places. EOL learns a scale and a
        shift for each class, which classes that look alike need; KDO compares each item with a density of the unknowns,
        which keeps prototypes from drifting onto clusters of them. Nobody has to know the share of unknowns: both
        methods are solved at [shares that may be true](../explanation/outlier-share.md), and averaged by how probable
        these are. This first opinion is weighed with what else an item shows in its pile, by weights
        $a, v, c$ that were learned on many feature sets: see [the verdict](../explanation/verdict.md). Of more than
        2,000 items it solves a sample and scores the rest by its result.
        """,
        r"""
        u_i &= \tfrac12 \textstyle\sum_g w(g)\, o_i^{\mathrm{KDO}}(g) +
            \tfrac14 \left( o_i^{\mathrm{EOL}}(g_{20}) + o_i^{\mathrm{EOL}}(g_{80}) \right), \qquad
            w \text{ the posterior of the share, } g_{20}, g_{80} \text{ its quantiles} \\
        q_{ij} &= \tfrac12 \left( p_{j | \mathrm{known}, i}^{\mathrm{EOL}} +
            p_{j | \mathrm{known}, i}^{\mathrm{KDO}} \right), \qquad
            \text{each averaged over the shares as } u_i \text{ is} \\
        o_i &= \sigma\left( a + \textstyle\sum_f v_f x_{if} + \sum_p c_p y_p \right), \qquad
            x_i \text{ what the item shows, with } \log\tfrac{u_i}{1 - u_i}, \quad y \text{ what the pile shows} \\
        p_{ij} &= (1 - o_i)\, q_{ij}^t / \textstyle\sum_l q_{il}^t
        """,
    ),
    "kdo": Words(
        "Kernel density for the outliers",
        """
        It smooths the features over the nearest neighbours of each item, then makes a few passes over the pile. Each
        item is compared with every class, by the cosine to its prototype and by a kernel density of its members so far,
        and with a density of the unknowns so far. A bias holds the share of unknowns at `outlier_share`; others pull
        the classes towards equal sizes, a little. Without a share it is run at sixteen shares, and their answers are
        averaged by how probable each share is: see [the outlier share](../explanation/outlier-share.md). It is the
        quicker half of the
        default method, better on features of a good backbone, and worse on tables of measurements.
        """,
        r"""
        y &= \mathrm{L2}(z + \tfrac12 S z), \qquad E_{il} = e^{\beta (y_i \cdot y_l - 1)}, \quad E_{ii} = 0, \qquad
            \beta = 12 \sqrt{0.18 / \sigma(y_i \cdot y_l)} \\
        l_{ij} &= \tfrac12 \left( \beta \cos(y_i, \textstyle\sum_l P_{lj} y_l) + \log \sum_l E_{il} P_{lj} \right) \\
        l_{i,\mathrm{out}} &= \log \left( \textstyle\sum_l E_{il} P_{l,\mathrm{out}} + 5 e_0 \right), \qquad
            e_0 = \mathrm{mean}\, E \text{ over pairs of the pile} \\
        P_{i \cdot}(g) &= \mathrm{softmax}(l_i + \mathrm{bias}), \qquad \mathrm{bias} \mathrel{+}=
            \log \mathrm{target}(g) - \log \mathrm{mean}_Q\, P,
            \qquad | \mathrm{bias}_j - \mathrm{mean}\, \mathrm{bias} | \le 0.4 \\
        p_{ij} &= \textstyle\sum_g w(g) P_{ij}(g), \qquad o_i = \textstyle\sum_g w(g) P_{i,\mathrm{out}}(g), \qquad
            w \text{ the posterior of the share}
        """,
    ),
    "ostim": Words(
        "Open-Set Transductive Information Maximisation",
        """
        Moves the prototypes by gradient descent so that each item of the pile is decided clearly while the pile as a
        whole spreads evenly over the classes and one more output, the unknown. That output's logit is minus the mean of
        the class logits, so an item that is unlike the classes on average gets it. It ranks unknowns nearly as well as
        EOL and does not need their share for that. As a probability its score is too low: few items pass 0.5, however
        many are unknown. So only its order is used. The share that you expect, or your own `threshold`, decides how
        many are called unknown. An unknown that resembles one class closely is missed.
        """,
        r"""
        g_{ij} &= \cos(z_i - \mu, c_j - \mu), \qquad g_{i,N+1} = -\mathrm{mean}_j\, g_{ij}, \qquad
            p_i = \mathrm{softmax}(\tau g_i) \text{ over } N + 1 \\
        \mathrm{loss} &= \mathrm{CE}(S) + \lambda_{\mathrm{co}}\, \mathrm{mean}_Q\, H(p_i)
            + \lambda_{\mathrm{ma}} \textstyle\sum_k m_k \log m_k, \qquad m = \mathrm{mean}_Q\, p_i
            \qquad \text{by Adam over } c \\
        \text{class } j &: \mathrm{softmax} \text{ over the first } N \text{ logits}, \qquad o_i = p_{i,N+1}
        """,
    ),
    "oslo": Words(
        "Open-Set Likelihood Optimisation",
        """
        Repeats three steps: how much of an inlier each item of the pile is, which classes it belongs to, and new
        prototypes as weighted means, so that likely outliers hardly move them. Two rounds suffice and no gradient is
        needed, which makes it one of the fastest transductive methods; its ranking of unknowns is close to that of
        OSTIM. The inlierness compares cosines with zero, the middle of the task: where unknowns are the majority the
        middle moves towards them, and too few would be called unknown at 0.5. So only the order of the scores is used.
        The share that you expect, or your own `threshold`, decides how many are called unknown.
        """,
        r"""
        \xi_i &= \mathrm{sigmoid} \left( \textstyle\sum_j z_{ij} \cos(q_i, c_j) / \lambda_\xi \right)
            \qquad \text{with } z_{ij} = 1/N \text{ at first} \\
        z_{ij} &= \mathrm{softmax}_j \left( \xi_i \cos(q_i, c_j) / \lambda_z \right) \\
        c_j &= \text{mean of the support of class } j, \text{ weight } 1,
            \text{ and of the pile, weight } \xi_i z_{ij} \\
        p_{ij} &= \mathrm{softmax}_j\, \cos(q_i, c_j), \qquad o_i = 1 - \xi_i
        """,
    ),
    "soft_kmeans": Words(
        "Masked soft k-means with a distractor cluster",
        """
        Soft k-means on the pile, started at the class means, with one cluster more than there are classes: the
        distractor, which lies in the middle of all features and takes items that fit no class. A mask keeps items
        that are far from a class, by the threshold `beta`, from pulling its prototype. It is simple, needs no gradient
        and ranks unknowns better than the closed-set methods, unless most of the pile is unknown. Features of unit
        length are all equally far from the middle, so the distractor amounts to one distance, set by `radius`, beyond
        which an item is unknown. The paper learned that and the mask on base classes; here they are fixed and cannot
        suit every backbone.
        """,
        r"""
        z_i &= \mathrm{softmax} \text{ over } N + 1 \text{ of }
            \left[ -\tau |q_i - c_j|^2,\; -\tau |q_i|^2 / r^2 - \log r \right] \\
        \tilde d_{ij} &= |q_i - c_j|^2 / \mathrm{mean}_i |q_i - c_j|^2, \qquad
            m_{ij} = \mathrm{sigmoid} \left( \gamma (\beta - \tilde d_{ij}) \right) \\
        c_j &= \text{mean of the support of class } j, \text{ weight } 1,
            \text{ and of the pile, weight } z_{ij} m_{ij} \\
        p_{ij} &= z_{ij}, \qquad o_i = z_{i,N+1}
        """,
    ),
    "openmax": Words(
        "OpenMax: activations revised by extreme-value theory",
        """
        Fits, for each class, a Weibull distribution to how far its own examples lie from their mean; with fewer than
        ten examples per class, one for all classes together. An item's activation for its closest classes is then cut
        by how unusual its distance is, and what is cut off becomes the activation of the unknown. It was made for
        networks with thousands of examples per class, and five are hardly enough. The score also falls again far away
        from every class, where there is little activation left to cut. Setting `weibull=False` gives the simpler rule
        behind the published few-shot figures, which ranks unknowns better.
        """,
        r"""
        v_j &= 2 - d_j, \qquad d_j = |q_i - c_j| \\
        F_j &= \text{Weibull of class } j,
            \text{ fitted to the largest distances of its examples to the mean of the others} \\
        w_j &= 1 - \tfrac{\alpha - r}{\alpha} F_j(d_j) \qquad
            \text{for the class of rank } r = 0 \ldots \alpha - 1 \text{ by activation},\; 1 \text{ for the rest} \\
        v'_j &= v_j w_j, \qquad v'_{\mathrm{out}} = \textstyle\sum_j v_j (1 - w_j), \qquad
            o_i = \text{the last of } \mathrm{softmax}(v'_1 \ldots v'_N, v'_{\mathrm{out}}) \\
        p_{ij} &= (1 - o_i)\, \mathrm{softmax}_j(v_j) \\
        p_i &= \mathrm{softmax}(-d_1 \ldots -d_N, 0) \qquad \text{instead, with weibull=False}
        """,
    ),
    "proser": Words(
        "Placeholders for Open-Set Recognition",
        """
        Trains a linear classifier on the examples with one output more than there are classes, a dummy that learns to
        come second to the true class; the dummy's logit is the outlier score. The paper trains a whole network in this
        way; here only the head is trained, from a random start, for a few `steps`. With a thousand features that is
        enough for accuracy close to the nearest mean. With tens of features it is not: classes stay near the random
        start. More steps mend the classes but harm the score, because the dummy's own logit then grows on known items
        too. Use it for comparison rather than in practice.
        """,
        r"""
        l_i &= W z_i + \beta, \qquad N + 1 \text{ outputs, the last the dummy} \\
        \mathrm{loss} &= \mathrm{CE}(l, y) + \lambda\, \mathrm{CE}(l \text{ with the true class masked out},
            \text{dummy}) \qquad \text{by Adam on } S \\
        p_{ij} &= \mathrm{softmax} \text{ over the } N \text{ class logits}, \qquad o_i = l_{i,N+1}
        """,
    ),
    "gda": Words(
        "Gaussian discriminant analysis, Mahalanobis distance",
        """
        Takes each class for a Gaussian around its mean, all with one covariance, and scores an item by its Mahalanobis
        distance to the nearest mean: directions in which examples of a class differ count less. A handful of examples
        cannot fill a covariance of a thousand dimensions, so it is drawn towards a multiple of the identity, by a
        `shrinkage` that is computed from the examples. With one example there is no covariance, and it is the
        plain distance to the nearest example. With more, its AUROC was half a point to one point above that of
        kNN on random piles of eighteen feature sets. It learns nothing from the pile.
        """,
        r"""
        d_{ij} &= (q_i - c_j)^\top \Sigma^{-1} (q_i - c_j), \qquad
            \Sigma = (1 - \lambda)\, C + \lambda\, \tfrac{\mathrm{tr}\, C}{D}\, I, \quad
            C = \tfrac1S \textstyle\sum_s (z_s - c_{y_s})(z_s - c_{y_s})^\top \\
        p_{ij} &= \mathrm{softmax}_j(-\tfrac12 d_{ij}), \qquad o_i = \min_j d_{ij}
        """,
    ),
    "gda_clip": Words(
        "Gaussian discriminant analysis with a ridge precision",
        """
        GDA with another estimate of the covariance: an empirical Bayes ridge, which adds to the scatter of the examples
        a multiple of the identity that has a closed form. The paper uses it to adapt CLIP without training, and adds
        the classifier of CLIP's texts. Here the texts are left out, and the smallest Mahalanobis distance is the
        outlier score. It has no parameter. The ridge is large where features are many and examples are few, so it stays
        close to the nearest class mean, and with one example of each class it is the same as GDA. On validation classes
        of tiny-ImageNet with five examples it was as good as GDA. It learns nothing from the pile.
        """,
        r"""
        P &= D \left( R^\top R + \tfrac{\mathrm{tr}\, R^\top R}{S - 1}\, I \right)^{-1}, \qquad
            R = \text{rows } z_s - c_{y_s},\; s \in S \\
        d_{ij} &= (q_i - c_j)^\top P\, (q_i - c_j), \qquad
            p_{ij} = \mathrm{softmax}_j(-\tfrac12 d_{ij}), \qquad o_i = \min_j d_{ij}
        """,
    ),
    "relative_mahalanobis": Words(
        "Mahalanobis distance to a class, relative to a background",
        """
        Subtracts from the distance of GDA the distance to one Gaussian of all examples, the background. What makes an
        item unusual for every class alike cancels, and what makes it unusual for its own class is left. It was made for
        unknowns that resemble the known classes, and for a background of many items. Here the background has the
        examples alone, so a few examples fit it poorly, and unknowns that lie away from all examples lose part of their
        distance too: on random piles of eighteen feature sets it was three points of AUROC below GDA. `shrinkage` is
        that of both covariances. With one class it is GDA.
        """,
        r"""
        o_i &= \min_j d_{ij} - (q_i - c_0)^\top \Sigma_0^{-1} (q_i - c_0), \qquad
            c_0, \Sigma_0 \text{ of all examples}, \quad d_{ij}, p_{ij} \text{ as GDA}
        """,
    ),
    "snatcher_f": Words(
        "Transformation consistency, on FEAT's transformation",
        """
        Takes classes from FEAT and tests each item: the item replaces the prototype of its class, the set of prototypes
        is adapted again, and the outlier score is how far the whole set has moved. An item of the class is as good a
        prototype as any other, while an unknown changes all of them. It needs a `base` with FEAT's head. It ranks
        unknowns better than FEAT's own doubt and better than kNN, also where the head has learned little, since even
        then it measures the way from item to prototype. Each item takes two products with a matrix as wide as the
        features, so it is slower than other inductive methods.
        """,
        r"""
        T(P) &= \text{the class means } P \text{ as FEAT adapts them}, \qquad p_{ij} \text{ as FEAT} \\
        P_i &= P \text{ with } q_i \text{ in the place of } c_{j^*}, \quad j^* = \arg\max_j p_{ij} \\
        o_i &= | T(P) - T(P_i) |^2
        """,
    ),
    "peeler": Words(
        "Open-set meta-learning: its Gaussian head",
        """
        Gives each class a Gaussian: its mean, and a precision for each feature that a small network predicts from the
        examples. The network was trained on tasks of base classes that contain unknowns: it should decide on queries of
        the known classes and stay undecided on others. This is the head and the loss of PEELER. The paper also trains
        the backbone, and most of its gain comes from that. It needs a `base` with that head. Classes come out some
        points better than by the nearest mean where base classes are many; unknowns are ranked by doubt, and kNN and
        SnaTCHer-F do that better.
        """,
        r"""
        \mu_j &= \mathrm{mean}_{i \in j}\, z_i, \qquad
            A_j = \mathrm{mean}_{i \in j}\, \exp \left( g + \tanh(z_i W_1) W_2 \right) \\
        p_{ij} &= \mathrm{softmax}_j \left( -(q_i - \mu_j)^\top \mathrm{diag}(A_j) (q_i - \mu_j) \right), \qquad
            o_i = -\max_j p_{ij} \\
        \mathrm{loss} &= \mathrm{CE} \text{ on the known} - \tfrac{1}{2} H(p_i) \text{ on the unknown}
            \qquad \text{over } g, W_1, W_2 \text{, on tasks of base classes}
        """,
    ),
    "frob": Words(
        "Few-shot robust rejection at a learned boundary",
        """
        Places samples around each class and trains one more output, rejection, on these samples and on your examples of
        no class, if there are any. Where the samples lie and how large the `steps` are was learned on tasks of base
        classes; it needs a `base` with that head. The samples come to lie far out, along directions in which classes
        spread. With a backbone it ranks unknowns about a point better than kNN, and classes come out as by SimpleShot
        or a little better; on a table of 16 features the ranking got worse. It gives a probability of unknown, learned
        from tasks that are unknown by half. The paper trains networks on pictures.
        """,
        r"""
        x_{jm} &= \mathrm{L2} \left( \mathrm{L2}(c_j) + \tfrac{\rho}{\sqrt{D}}\, g_m \right), \qquad
            m = 1 \ldots M \\
        l_{ij} &= \tau \cos(z_i, w_j), \qquad l_{i0} = r + \tau\, v \cdot z_i, \qquad
            P_i = \mathrm{softmax}(l_{i1} \ldots l_{iN}, l_{i0}) \\
        \mathrm{loss} &= -\mathrm{mean}_S\, \log P_{iy} - \lambda_b\, \mathrm{mean}_{jm}\, \log P_0(x_{jm})
            - \lambda_e\, \mathrm{mean}_u\, \log P_0(u) \qquad \text{by gradient steps over } w, v, r \\
        w_j &= c_j, \quad v = 0, \quad r = \tau\, \theta\, \frac{\kappa}{\sqrt{\kappa + (1 - \kappa) / s}} + \log N
            \qquad \text{at the start, with } s \text{ examples per class} \\
        p_{ij} &= P_{ij}, \qquad o_i = P_{i0}, \qquad g, \rho, \tau, \lambda_b, \kappa, \theta \text{ and the step sizes
            learned on tasks of base classes}
        """,
    ),
    "flowr": Words(
        "Bayesian embeddings for few-shot open-world recognition",
        """
        Takes each class for a Gaussian in a linear embedding. The mean of a class is itself drawn from a Gaussian,
        learned on base classes. So a mean of few examples stays uncertain, and a class without examples has a
        distribution too. The prior of a new class grows with `alpha` and falls with the number of examples: with one
        example per class, more items are called unknown than with five. It needs a `base` with its head. With
        `arrivals`, items come one after another, join classes and open new ones. Their order then matters, and a wrong
        decision is never undone.
        """,
        r"""
        e &= z W, \qquad \lambda_k = 1 / s_0 + n_k / s, \qquad
            \mu_k = \left( m_0 / s_0 + \textstyle\sum_{i \in k} e_i / s \right) / \lambda_k \\
        p(e \mid k) &= \mathcal{N}(e; \mu_k, 1 / \lambda_k + s), \qquad
            p(e \mid \mathrm{new}) = \mathcal{N}(e; m_0, s_0 + s) \\
        p_{ij} &\propto n_j\, p(e_i \mid j)^{1/T}, \qquad o_i \propto \alpha\, p(e_i \mid \mathrm{new})^{1/T}, \qquad
            \textstyle\sum_j p_{ij} + o_i = 1
        """,
    ),
    "meta_bce": Words(
        "One-class meta-learning with binary cross-entropy",
        """
        Gives each class a one-class classifier: how likely is an item to be of this class, whatever the others are? It
        compares items and class means after a projection that all classes share and a gate on each feature that the
        class's own examples decide. Both were learned on tasks of base classes. An item that all classes reject is
        unknown. It needs a `base` with that head. Where features are weak, as in a table of measurements, classes and
        unknowns gain several points; with a strong backbone it stays near the nearest mean by cosine, whose rejection
        ranks unknowns as well as kNN and better than doubt. The paper learns a network.
        """,
        r"""
        f'(z) &= z + (z V_1) V_2, \qquad c_j = \mathrm{mean}_{i \in j}\, f'(z_i), \qquad
            u_j = \exp \left( \tanh(c_j W_1) W_2 \right) \\
        s_{ij} &= -\left( e^a \left( 1 - \cos(u_j \odot f'(q_i),\, u_j \odot c_j) \right) + t + t' / n_j \right),
            \qquad p_{ij} = \sigma(s_{ij}) \\
        o_i &= 1 - \max_j \sigma(s_{ij} - r), \qquad \text{class probabilities } \mathrm{softmax}_j\, s_{ij} \\
        \mathrm{loss} &= \mathrm{BCE} \text{ of all } p_{ij} + \mathrm{BCE} \text{ of all } o_i
            \qquad \text{over } V, W, a, t, t', r \text{, on tasks of base classes}
        """,
    ),
    "ood_maml": Words(
        "Out-of-distribution model-agnostic meta-learning",
        """
        Gives each class a linear detector, adapted to the examples of that class alone by a few gradient `steps`. They
        have no outliers to learn from, so the method brings fake ones: learned once, then moved towards the class by
        `adversarial_steps`, where they are hardest to tell. Start, fakes and step sizes were learned on tasks of base
        classes through the adaptation itself. It needs a `base` with that head. With weak features it gains several
        points over the nearest mean; with a strong backbone it is on a par with kNN, inside the noise. The paper adapts
        a network and fakes pictures; here only a last layer is left to adapt.
        """,
        r"""
        s_j(x) &= \langle w_j, x \rangle + b_j, \qquad p_j = \sigma(s_j), \qquad
            x = \text{feature after a learned projection, } |x| = 1 \\
        L_j(F) &= -\mathrm{mean}_{i \in j} \log p_j(x_i) - \mathrm{mean}_{f \in F} \log(1 - p_j(f)), \qquad
            (w'_j, b'_j) = (w, b) - \alpha \nabla L_j(f) \\
        f'_j &\leftarrow \mathrm{unit}(f'_j + \beta\, w'_j / |w'_j|), \text{ from } f, \qquad
            (w_j, b_j) \leftarrow (w_j, b_j) - \alpha \nabla L_j(f \cup f'_j), \text{ from } (w, b) \\
        o_i &= 1 - \max_j \sigma(s_j(q_i) - r), \qquad
            \text{class probabilities } \mathrm{softmax}_j\, s_j(q_i) \\
        \mathrm{loss} &= \mathrm{BCE} \text{ of all } p_j(q_i) + \mathrm{BCE} \text{ of all } o_i
            \qquad \text{over } w, b, f, \alpha, \beta, r \text{ and the projection, on tasks of base classes}
        """,
    ),
    "rpl": Words(
        "Reciprocal Point Learning",
        """
        Gives each class a reciprocal point that represents everything outside the class; an item belongs to the class
        whose reciprocal point it is farthest from, and one that is far from none is unknown. A second term bounds how
        far known items may be, so that open space stays near the points. The paper shapes the features by this loss,
        and that is where its strength lies; on fixed features there is little left to shape. Classes come out as well
        as by the nearest mean. Unknowns are ranked worse than by a plain distance to the examples, most clearly with
        one example per class.
        """,
        r"""
        d_{ij} &= |z_i - P_j|^2, \qquad p_i = \mathrm{softmax}_j(\gamma d_{ij}) \\
        \mathrm{loss} &= -\mathrm{mean}_S\, \log p_{iy}
            + \lambda\, \mathrm{mean}_S\, (d_{iy} - R_y)^2 \qquad \text{by Adam over } P \text{ and } R \\
        o_i &= -\max_j d_{ij}
        """,
    ),
    "feat": Words(
        "Few-Shot Embedding Adaptation with Transformer",
        """
        Adapts the class means to each other before items are compared with them. One head of self-attention, learned on
        tasks of base classes, moves each mean depending on the others, so that the features which separate these
        classes count more. It needs a `base` with that head. With many base classes and features that were not made for
        few examples it gains many points of accuracy; with a strong backbone and few base classes it learns little, and
        stays near SimpleShot, where it starts. The paper learns the backbone as well. Unknowns are ranked by doubt;
        `snatcher_f` does that better with the same head.
        """,
        r"""
        a_{jk} &= \mathrm{softmax}_k \left( \sqrt{D}\, c_j M c_k^\top \right), \qquad
            r_j = c_j + \textstyle\sum_k a_{jk}\, c_k V \\
        c'_j &= g \odot \frac{r_j - \bar r_j}{|r_j - \bar r_j|} + h, \qquad
            \bar r_j = \text{mean over features} \\
        p_{ij} &= \mathrm{softmax}_j \left( -|q_i - c'_j|^2 / T \right), \qquad o_i = -\max_j p_{ij} \\
        \mathrm{loss} &= \mathrm{CE} \text{ on queries} \qquad
            \text{over } M, V, g, h, T \text{, on tasks of base classes}
        """,
    ),
    "conformal": Words(
        "Conformal p-values for novelty detection",
        """
        Gives each item a p-value: how often an item of a known class would be as far from its class mean. Distances are
        calibrated by tasks with as many classes and shots, drawn from a sample of base items that the `base` keeps. Of
        the items called unknown, the part `fdr` at most should belong to a class. That holds if the classes are like
        the base classes, and as new to the backbone; few or other base classes break it. Use it where a wrong
        "unknown" is expensive. With one example it finds few unknowns, because few are certain. Items are ranked as by
        the nearest class mean. New items get the threshold of the pile, without a promise.
        """,
        r"""
        v &= \frac{16 N v_0 + \sum_j \sum_{z \in j} |z - c_j|^2}{16 N + \sum_j (n_j - 1)}, \qquad
            v_0 = \text{the variance within a base class}, \quad n_j = \text{examples of class } j \\
        s_i &= \min_j \frac{|q_i - c_j|^2}{(1 + 1 / n_j)\, v}, \qquad
            s_1, \ldots, s_n \text{ the same for held-out items of known classes in tasks of base classes} \\
        p_i &= \frac{1 + \#\{k : s_k \ge s_i\}}{n + 1}, \qquad o_i = 1 - p_i, \qquad
            p_{ij} = \mathrm{softmax}_j(\tau \cos(q_i, c_j)) \\
        \hat\pi &= \min \left( 1, \left( 1 + \tfrac{1}{N} \right) \frac{1 + \#\{i : p_i > 1/2\}}{Q / 2} \right) \\
        \text{unknown} &: p_i \le p_{(k)}, \qquad
            k = \max \left\{ k : p_{(k)} \le \min \left( \tfrac12, \mathrm{fdr}\, \frac{k}{Q \hat\pi} \right) \right\}
        """,
    ),
    "poodle": Words(
        "Penalising Out-of-Distribution Samples",
        """
        Moves the class means by gradient descent: towards the examples, and away from items that surely belong to none
        of the classes, a sample of the base classes' features. Each item pulls or pushes most the prototype that it is
        nearest to, so features that base items share count less. It needs a `base` with such items, and no learned
        head. On features of a strong backbone and with five examples, accuracy is a little above the nearest mean and
        fine-tuning; with one example, or weak features, nothing is gained. It was made for classes, not for unknowns:
        its doubt ranks them no better than SimpleShot's.
        """,
        r"""
        l_{ij} &= -\tfrac{s}{2} |z_i - c_j|^2, \qquad p_i = \mathrm{softmax}_j\, l_{ij} \\
        \mathrm{pull} &= -\mathrm{mean}_S \textstyle\sum_j [p_{ij}]\, l_{ij}, \qquad
            \mathrm{push} = \text{the same over the negatives}, \quad [p] \text{ held fixed} \\
        \mathrm{loss} &= \mathrm{CE} + \alpha\, \mathrm{pull} - \beta\, \mathrm{push}
            \qquad \text{by Adam over } c \text{ and } s, \qquad o_i = -\max_j p_{ij}
        """,
    ),
    "tim_gd": Words(
        "Transductive Information Maximisation by Gradient Descent",
        """
        Moves the prototypes by gradient descent so that each item of the pile is decided clearly and the pile as a
        whole uses all classes evenly, while the examples keep their labels. Where the pile holds known classes only, in
        similar numbers, this improves accuracy, most of all with one example per class. It has no output for the
        unknown: outliers are decided clearly too, and its only score is doubt. The small default `learning_rate` keeps
        that harm small. For an open pile prefer OSTIM, its open-set relative, or take its classes only, as in
        `tim_gd+knn`.
        """,
        r"""
        p_i &= \mathrm{softmax}_j(\tau \cos(z_i, c_j)) \\
        \mathrm{loss} &= \mathrm{CE}(S) - \lambda_{\mathrm{ma}} H(\mathrm{mean}_Q\, p_i)
            + \lambda_{\mathrm{co}}\, \mathrm{mean}_Q\, H(p_i) \qquad \text{by Adam over } c \\
        o_i &= -\max_j p_{ij}
        """,
    ),
    "bdcspn": Words(
        "Bias Diminishing with a Cosine-Similarity Prototypical Network",
        """
        Corrects two biases of class means taken from a few examples. The pile is shifted so that its mean meets that of
        the examples; each pile item then votes for its nearest class, and prototypes become weighted means of examples
        and voters. One pass, no gradient: among the cheapest ways to learn from a pile, and a clear gain in accuracy
        with one example per class. Every item votes, the unknown too: with many outliers in the pile prototypes are
        pulled towards them, the shift goes astray, and the ranking of unknowns gets worse than SimpleShot's.
        """,
        r"""
        q'_i &= q_i + \mathrm{mean}(S) - \mathrm{mean}(Q), \qquad
            \hat y_i = \mathrm{argmax}_j\, \cos(q'_i, c_j) \\
        c_j &\leftarrow \text{mean of the support of class } j \text{ and the } q'_i \text{ with } \hat y_i = j,
            \text{ weighted by } e^{\cos(\cdot,\, c_j)} \\
        p_{ij} &= \mathrm{softmax}_j(\tau \cos(q_i, c_j)), \qquad o_i = -\max_j p_{ij}
        """,
    ),
    "laplacianshot": Words(
        "Laplacian-regularised few-shot classification",
        """
        Starts from BD-CSPN's prototypes and lets the nearest `neighbours` of each item in the pile vote on its class,
        so that nearby items end in the same class. Where classes form clusters in the pile this gives some of the best
        accuracy from one example per class, at little cost. Neighbours vote with the weight `strength`, known or not: a
        tight cluster of outliers agrees with itself and looks like a class. So its outlier score, doubt, is among the
        least useful here, and gets worse with more unknowns. Use only its classes, as in `laplacianshot+knn`.
        """,
        r"""
        a_{ij} &= |q_i - c_j|^2 \text{ with the prototypes of BD-CSPN}, \qquad
            W = \text{each item's } k \text{ nearest others} \\
        Y &= \mathrm{softmax}(-a), \quad \text{then} \quad
            Y = \mathrm{softmax}(-a + \lambda W Y) \quad \text{until the energy rests:} \\
        E &= \textstyle\sum Y \log Y + a Y - \lambda (W Y) Y \\
        p_{ij} &= Y_{ij}, \qquad o_i = -\max_j p_{ij}
        """,
    ),
    "transclip": Words(
        "Transduction for vision-language models: a Gaussian mixture with a Laplacian term",
        """
        Fits a mixture of Gaussians, one for each class, to examples and pile together. The examples keep their labels
        and have the weight `gamma`; each item's nearest `neighbours` in the pile vote on its class. The paper starts
        from CLIP's texts; without them one variance for all features is safer than its diagonal, which is a `shrinkage`
        of 0. Accuracy is close to LaplacianShot's. Its outlier score, a low density of the mixture, ranks unknowns
        better than GDA where at least half of the pile is unknown, and worse where few items are. Most of this
        difference comes from centring by the task's own mean: GDA with that `preparation` comes close.
        """,
        r"""
        l_{ij} &= -\tfrac{\tau}{2D} (z_i - c_j)^\top \Sigma^{-1} (z_i - c_j), \qquad
            Y_i = \mathrm{softmax}_j \left( l_{ij} + \tfrac{\lambda}{2k} \left( (W + W^\top) Y \right)_{ij} \right),
            \quad W = \text{cosines to } k \text{ nearest others} \\
        c_j &\leftarrow \text{unit length of } \tfrac{\gamma}{|S|} \textstyle\sum_{S,\, y_i = j} z_i
            + \tfrac{1}{|Q|} \sum_Q Y_{ij} z_i \\
        v &= \text{mean of } (z_i - c_j)^2 \text{ by the same weights}, \qquad
            \Sigma = \mathrm{diag} \left( (1 - s)\, v + s\, \bar v \right) \\
        p_{ij} &= Y_{ij}, \qquad o_i = -\log \textstyle\sum_j e^{l_{ij}}
        """,
    ),
    "pt_map": Words(
        "Power Transform and Maximum A Posteriori",
        """
        Takes roots of the features, which makes their distribution more even, then repeats: transport the pile to the
        prototypes at the least cost so that all classes get equally many items, and move the prototypes part of the way
        to what they got. If the pile truly holds the classes in equal numbers, this is among the best classifiers from
        one example per class. It always assumes equal numbers, also where classes are unequal or the pile has outliers.
        The power step sets negative features to zero, so give it features as they leave a ReLU, not centred ones, or
        another `preparation`.
        """,
        r"""
        M_{ij} &= |q_i - c_j|^2 \\
        P &= e^{-\kappa M} \text{ scaled by Sinkhorn to row sums } 1
            \text{ and column sums } \lfloor |Q| / N \rfloor \\
        c_j &\leftarrow c_j + \alpha \left( \text{mean of the support of class } j
            \text{ and of the pile, weight } P_{ij} \;-\; c_j \right) \\
        p_{ij} &= P_{ij} / \textstyle\sum_j P_{ij}, \qquad o_i = -\max_j p_{ij}
        """,
    ),
    "simpleshot": Words(
        "SimpleShot: the nearest class mean",
        """
        Centres and normalises features, averages each class's examples and gives an item to the class whose mean has
        the largest cosine. There is nothing to train and nothing to tune, items are judged one by one, and with five
        examples per class accuracy is within two or three points of the most elaborate methods. Begin here. Its outlier
        score is doubt between classes: an item halfway between two classes is found, an item that is like one class a
        little and like the others not at all is not. A higher `temperature` leaves the classes as they are and ranks
        unknowns somewhat worse. For unknowns use it in a pair: `simpleshot+knn`.
        """,
        r"""
        p_{ij} &= \mathrm{softmax}_j(\tau \cos(q_i, c_j)), \qquad o_i = -\max_j p_{ij}
        """,
    ),
    "finetune": Words(
        "Baseline++: a cosine classifier, fine-tuned",
        """
        A classifier by the cosine to one weight vector per class. The vectors start at the class means and are trained
        by gradient descent to give the examples their labels. The pile is not used, so items are judged one by one. It
        shows what training on the examples alone brings over taking their mean: with good features, little. With one
        example per class there is next to nothing to learn from. Its sharper `temperature` makes it surer of
        everything, so that its doubt ranks unknowns slightly worse than SimpleShot's. Many `steps` or a large
        `learning_rate` overfit the few examples.
        """,
        r"""
        p_i &= \mathrm{softmax}_j(\tau \cos(z_i, c_j)) \\
        \mathrm{loss} &= \mathrm{CE}(S) \qquad \text{by Adam over } c \\
        o_i &= -\max_j p_{ij}
        """,
    ),
    "knn": Words(
        "Distance to the k nearest neighbours",
        """
        The outlier score is the mean distance to the `k` nearest examples, of any class. It makes no assumption
        about the shape of classes, needs neither a pile nor a share of outliers, and is the strongest of the plain
        detectors and the best inductive method here: hard to beat when unknowns are few or items come one at a time.
        Every example counts equally, so unknowns near a wrong or odd example are missed, and with one example per class
        only the distance to the nearest one is left. It does not learn from the pile, which is why EOL, OSTIM and OSLO
        are better.
        """,
        r"""
        o_i &= \tfrac{1}{k} \textstyle\sum \text{ of the } k \text{ smallest } |q_i - z_s|,\; s \in S
        """
        + SIMPLESHOT,
    ),
    "iforest": Words(
        "Isolation forest",
        """
        Cuts the feature space by random splits along single features until each example is alone; an item that few
        cuts isolate is called an outlier. Made for large tables with a few meaningful columns, where it is fast and
        robust. A handful of examples gives it shallow `trees`, and among the hundreds of features of a backbone any
        single one says little: the score is then little better than chance. It takes random draws, so small differences
        between runs with another `random_state` mean nothing. Use it when items are described by tens of measured
        features and examples are many.
        """,
        r"""
        o_i &= 2^{-\mathrm{mean}_t\, h_t(q_i) / c(|S|)} \text{ less a constant}, \qquad
            h_t = \text{depth in tree } t, \quad c = \text{expected depth}
        """
        + SIMPLESHOT,
    ),
    "ocsvm": Words(
        "One-class support vector machine",
        """
        Learns a surface around the examples, all classes taken as one, and scores an item by its signed distance to it.
        With the `kernel` of the published comparison, "poly", it is not trained at all: the kernel's values are far
        below the solver's tolerance, so that it stops before its first step, and only the first half of the examples
        counts, in the order they were given. The picture shows it: much of the last class is called unknown. A
        `tolerance` of 1e-12 trains it, as does `kernel="rbf"`, and both rank unknowns much better. Half of the examples
        lie outside the surface by construction, so only the order of the scores means something. kNN is simpler and no
        worse.
        """,
        r"""
        o_i &= \rho - \textstyle\sum_{s \in S} \alpha_s\, k(z_s, q_i), \qquad
            \alpha, \rho \text{ from the one-class SVM with } \nu = 0.5
        """
        + SIMPLESHOT,
    ),
    "pca": Words(
        "Principal component classifier",
        """
        Standardises every feature by the examples, finds the examples' leading directions, and scores an item by its
        distance to the tips of these unit vectors, each divided by the share of variance it explains. Since the tips
        lie close to the examples' centre, this is for the most part the distance to that centre in standardised
        features: good when all examples form one cloud. Several classes are several clouds, and what lies between them
        looks most usual. With few examples the variances are guesses. The number of `components` hardly matters. Use it
        for comparison.
        """,
        r"""
        o_i &= \textstyle\sum_k |\tilde q_i - u_k| / \lambda_k, \qquad
            u_k = \text{direction of the standardised support}, \quad \lambda_k = \text{share of its variance}
        """
        + SIMPLESHOT,
    ),
    "copod": Words(
        "Copula-Based Outlier Detection",
        """
        Looks at each feature by itself: how far out in the tail of the values of all items, examples and pile together,
        does this item lie? The surprises of all features are summed. It has no parameters and suits tables with
        meaningful columns and rare outliers. It does not know which items are examples, so where unknowns are many they
        are the usual ones, and features of a backbone are high exactly where an item is typical of its class. On
        embeddings the ranking is near chance, and below it in piles with many unknowns.
        """,
        r"""
        U^l_{if} &= -\log \hat F_f(q_{if}), \qquad U^r_{if} = -\log \hat F^-_f(q_{if}), \qquad
            \hat F_f, \hat F^-_f = \text{share of items not above, not below} \\
        o_i &= \textstyle\sum_f \max \left( U^{\mathrm{skew}}_{if},\;
            \tfrac{1}{2} (U^l_{if} + U^r_{if}) \right), \qquad
            U^{\mathrm{skew}} = U^l \text{ where feature } f \text{ leans left, } U^r \text{ where right}
        """
        + SIMPLESHOT,
    ),
}
