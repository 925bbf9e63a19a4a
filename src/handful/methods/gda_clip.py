"""GDA-CLIP: Gaussian discriminant analysis with an empirical Bayes estimate of the precision. Inductive, open-set.

GDA with another estimate of the covariance: an empirical Bayes ridge, which adds to the scatter of the examples a
multiple of the identity that has a closed form. The paper uses it to adapt CLIP without training, and adds the
classifier of CLIP's texts. Here the texts are left out, and the smallest Mahalanobis distance is the outlier score. It
has no parameter. The ridge is large where features are many and examples are few, so it stays close to the nearest
class mean, and with one example of each class it is the same as GDA. On validation classes of tiny-ImageNet with five
examples it was as good as GDA. It learns nothing from the pile.

Wang, Liang, Sheng, He, Wang, Tan: "A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation", 2024, without the
text classifier that the paper adds. mu_k is the mean of class k in the support, n the number of all examples, R the
examples less their means [n, D], and Sigma = R^T R / (n - 1) their pooled covariance::

    P = D ((n - 1) Sigma + tr(Sigma) I)^-1
    w_k = P mu_k,    b_k = log pi_k - mu_k^T P mu_k / 2,    p_ik = softmax_k(w_k^T q_i + b_k)

Classes are equally likely, pi_k = 1 / N. Then the logits differ from -d_ik / 2 only by a number that all classes
share, so that the squared Mahalanobis distances d_ik give everything::

    d_ik = (q_i - mu_k)^T P (q_i - mu_k),    p_ik = softmax_k(-d_ik / 2),    o_i = min_k d_ik

The outlier score is not from the paper, which has known classes only. Up to a constant factor, d_ik is the distance of
`handful.methods.gda` with the shrinkage D / (D + n - 1). One example of each class shows no covariance. Then P is that
of `gda`, a multiple of the identity.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.core.arrays import Array, softmax
from handful.engines.gaussian import Gaussian
from handful.methods.gda import around_means
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="gda_clip",
    estimator="GDACLIP",
    title="GDA-CLIP (without texts)",
    authors="Wang, Liang, Sheng, He, Wang, Tan",
    year=2024,
    paper="A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation (ICLR 2024)",
    summary="Classes are Gaussians with one ridge covariance. Outlier score: the smallest Mahalanobis distance.",
)


@register(INFO)
def gda_clip(support: Array, labels: Array, query: Array) -> Solution:
    """Score queries by their Mahalanobis distance to the class means, with a ridge precision."""
    means, residuals, spread = around_means(support, labels)
    distances = Gaussian.fit_ridge(residuals, spread).distances(query, means)  # [B, Q, N]
    return Solution(softmax(-distances / 2), array_namespace(query).min(distances, axis=-1))
