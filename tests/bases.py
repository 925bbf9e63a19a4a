"""What base classes might have left behind: heads of random numbers, for tests of methods that need some."""

import numpy as np

from handful.methods import Base
from handful.solving import get_solver


def base_for(dimension, seed=0, strength=0.05, negatives=30):
    """A base of that many features; strength: how far its heads are from doing nothing."""
    rng = np.random.default_rng([seed, dimension])
    feat = {
        "attention": rng.normal(size=(dimension, dimension)) / dimension**0.5,
        "output": strength * rng.normal(size=(dimension, dimension)) / dimension**0.5,
        "gain": 1 + strength * rng.normal(size=dimension),
        "shift": strength * rng.normal(size=dimension) / dimension**0.5,
        "log_temperature": np.log([0.5]),
    }
    peeler = {
        "inner": rng.normal(size=(dimension, 4)),
        "outer": strength * rng.normal(size=(4, dimension)),
        "log_precision": 1 + strength * rng.normal(size=dimension),
    }
    frob = {
        "offsets": rng.normal(size=(4, dimension)),
        "log_radius": np.log([2.0]) + strength * rng.normal(size=1),
        "log_tau": np.log([5.0]),
        "log_lambda": np.log([0.7]),
        "log_cosine": np.log([0.4]),
        "threshold": np.array([0.6]),
        "log_rate_prototypes": np.log([0.1]),
        "log_rate_rejection": np.log([0.05]),
        "log_rate_bias": np.log([0.2]),
    }
    flowr = {
        "embedding": 4 * np.eye(dimension, dimension + 2) + strength * rng.normal(size=(dimension, dimension + 2)),
        "prior_mean": strength * rng.normal(size=dimension + 2),
        "log_between": np.log(rng.uniform(0.8, 1.2, size=dimension + 2)),
        "log_within": np.log(rng.uniform(0.2, 0.3, size=dimension + 2)),
        "log_alpha": np.log([3.0]),
        "log_temperature": np.log([1.5]),
    }
    conformal = {"items": rng.normal(size=(40, dimension)), "codes": np.repeat(np.arange(5), 8)}
    low_rank = {
        "down": rng.normal(size=(dimension, 5)) / dimension**0.5,
        "up": strength * rng.normal(size=(5, dimension)),
    }
    meta_bce = low_rank | {
        "inner": rng.normal(size=(dimension, 4)),
        "outer": strength * rng.normal(size=(4, dimension)),
        "log_scale": np.log([8.0]),
        "threshold": np.array([-5.0, -0.5]),
        "rejection": np.array([0.3]),
    }
    ood_maml = low_rank | {
        "weight": strength * rng.normal(size=dimension),
        "bias": np.array([-1.0]),
        "fakes": rng.normal(size=(3, dimension)),
        "log_fake_steps": np.log([0.1, 0.2, 0.3]),
        "log_rates": np.log([5.0, 0.1]),
        "rejection": np.array([0.3]),
    }
    about = {"name": "made up", "classes": 3}
    mean = strength * rng.normal(size=dimension) / dimension
    heads = {
        "feat": feat, "peeler": peeler, "flowr": flowr, "meta_bce": meta_bce, "ood_maml": ood_maml, "frob": frob,
        "conformal": conformal,
    }  # fmt: skip
    return Base(mean, heads, rng.normal(size=(negatives, dimension)), about)


def needed(name, dimension):
    """The parameters that a method cannot do without."""
    return {"base": base_for(dimension)} if get_solver(name).info.needs == "base" else {}
