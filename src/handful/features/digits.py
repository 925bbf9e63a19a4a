"""The data set that is on every machine: scikit-learn's handwritten digits, raw pixels as features."""

from __future__ import annotations

import numpy as np

SHAPE = (8, 8)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 drawings of the digits 0 to 9: features [1797, 64] float32 in 0 .. 16, labels [1797].

    Examples
    --------
    >>> features, labels = digits()
    >>> features.shape, int(labels.max())
    ((1797, 64), 9)
    """
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return features.astype(np.float32), labels
