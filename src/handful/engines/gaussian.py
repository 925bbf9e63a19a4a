"""Gaussians of few examples in many dimensions: a shrunk covariance, and Mahalanobis distances.

R are the examples less their means, S rows and D columns. Their covariance C = R^T R / S has no inverse where S < D, so
it is drawn towards a multiple of the identity::

    Sigma = (1 - lambda) C + lambda mu I,    mu = tr C / D
    lambda = (a + mu^2) / ((S + 1) (a - mu^2 / D)),    a = tr C^2 / D^2, at most 1

This lambda is the oracle approximating shrinkage of Chen, Wiesel, Eldar and Hero ("Shrinkage Algorithms for MMSE
Covariance Estimation", 2010), as scikit-learn computes it. Where S < D, distances need no matrix of D x D (Woodbury)::

    z^T Sigma^-1 z = (|z|^2 - (R z)^T (c I + R R^T)^-1 R z) / (lambda mu),    c = S lambda mu / (1 - lambda)

`Gaussian.fit_ridge` has another estimate, the empirical Bayes one of Kubokawa and Srivastava ("Estimation of the
Precision Matrix of a Singular Wishart Distribution and its Application in High-Dimensional Data", 2008)::

    Sigma = (R^T R + c I) / D,    c = tr R^T R / (S - 1)

Its distances are those of the same equation, with c / D in the place of lambda mu.
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace, device

from handful.core.arrays import FLOOR, Array, at_least, products, squared_distances

MAX_SHRINKAGE = 1 - 1e-6  # so that c is finite
MIN_SHRINKAGE = 1e-3  # so that Sigma has an inverse in float32
MIN_PART = 1e-6  # a variance below this part of all variance is rounding: copies, or one example of each class


@dataclass
class Gaussian:
    """The shrunk covariance of each task of a batch."""

    residuals: Array  # the examples less their means, R [B, S, D]
    floor: Array  # lambda mu or c / D [B, 1, 1]: the variance in directions in which no example differs from its mean
    ridge: Array  # c of the equations above, [B, 1, 1]

    @classmethod
    def fit(cls, residuals: Array, shrinkage: float | None = None, spread: Array | None = None) -> Gaussian:
        """Fit it to residuals. Where all are 0, as with one example of each class, Sigma is `spread` times I."""
        xp = array_namespace(residuals)
        n, d = residuals.shape[-2:]
        gram = residuals @ xp.matrix_transpose(residuals) / n  # [B, S, S]; its trace is that of C, so is its square's
        total = xp.sum(residuals * residuals, axis=(1, 2))[:, None, None] / n
        mu, a = total / d, xp.sum(gram * gram, axis=(1, 2))[:, None, None] / d**2
        if shrinkage is None:
            weight = (a + mu * mu) / at_least((n + 1) * (a - mu * mu / d), FLOOR**2)
        else:
            weight = xp.zeros_like(mu) + shrinkage
        least, most = (xp.asarray(v, dtype=mu.dtype, device=device(mu)) for v in (MIN_SHRINKAGE, MAX_SHRINKAGE))
        weight = xp.minimum(xp.maximum(weight, least), most)
        if spread is not None:
            is_flat = mu <= MIN_PART * spread
            mu, weight = xp.where(is_flat, spread, mu), xp.where(is_flat, most, weight)
        floor = at_least(weight * mu, FLOOR)
        return cls(residuals, floor, n * floor / (1 - weight))

    @classmethod
    def fit_ridge(cls, residuals: Array, spread: Array) -> Gaussian:
        """Fit it to the examples less their means, with the ridge of Kubokawa and Srivastava."""
        xp = array_namespace(residuals)
        n, d = residuals.shape[-2:]
        floor = xp.sum(residuals * residuals, axis=(1, 2))[:, None, None] / (max(n - 1, 1) * d)
        floor = at_least(xp.where(floor <= MIN_PART * spread, spread, floor), FLOOR)
        return cls(residuals, floor, d * floor)

    def distances(self, items: Array, means: Array) -> Array:
        """Squared Mahalanobis distances of items [B, M, D] to means [B, N, D]: [B, M, N]."""
        n, d = self.residuals.shape[-2:]
        if d <= n:  # the difference below would lose digits: examples explain nearly all of an item
            xp = array_namespace(items)
            matrix = self.floor * (xp.matrix_transpose(self.residuals) @ self.residuals / self.ridge + _identity(items))
            whitening = _whitening(matrix)
            return squared_distances(products(items, whitening), products(means, whitening))
        whitening = _whitening(products(self.residuals, self.residuals) + self.ridge * _identity(self.residuals, n))
        of_items, of_means = (products(products(x, self.residuals), whitening) for x in (items, means))  # [B, M, S]
        squares = squared_distances(items, means) - squared_distances(of_items, of_means)
        return at_least(squares, 0.0) / self.floor


def _whitening(matrix: Array) -> Array:
    """The inverse of the Cholesky factor of each matrix [B, n, n]."""
    xp = array_namespace(matrix)
    return xp.linalg.inv(xp.linalg.cholesky(matrix))


def _identity(like: Array, n: int | None = None) -> Array:
    xp = array_namespace(like)
    return xp.eye(n or like.shape[-1], dtype=like.dtype, device=device(like))
