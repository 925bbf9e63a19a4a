"""Methods with chance in them against the published code's figures over many tasks (needs ../shared/data).

Features of Tiny ImageNet pictures by a backbone that has seen ImageNet; balanced 5-way 5-shot tasks. The published
figures are of 100 tasks of the published code's own drawing, so that two means of draws are compared.
"""

import numpy as np
import pytest

import handful
from handful.core.metrics import figures, mean_and_half_width
from handful.features import Protocol, draw

READS = ("src/handful/methods/iforest.py", "src/handful/methods/proser.py")
PUBLISHED = {  # accuracy, AUROC, AUPR, Prec@0.9; iforest gives no classes
    "iforest": (None, 61.3, 59.5, 54.3),
    "proser": (88.6, 86.6, 85.3, 73.1),
}
HALF_WIDTHS = (1.0, 1.1, 1.2, 1.9)  # about, of the published figures


@pytest.fixture(scope="module")
def tiny_imagenet(shared):
    test, base = (np.load(shared / "data" / f"tiny_imagenet_{part}.npz") for part in ("test", "base"))
    base_mean = base["features"].astype(np.float32).mean(axis=0)
    return test["features"].astype(np.float32), test["labels"], base_mean


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tasks"), [("iforest", 30), ("proser", 80)])  # a forest a task takes its time
def test_chance_lands_on_the_published_figures(tiny_imagenet, name, tasks):
    if name == "iforest":
        pytest.importorskip("pyod")
    features, labels, base_mean = tiny_imagenet
    episodes = draw(features, labels, Protocol(), seed=0, tasks=tasks)
    result = handful.solve(episodes.task, method=name, base_mean=base_mean)
    found = figures(result.probabilities, result.outlier_scores, episodes.truth)
    for (figure, values), published, theirs in zip(found.items(), PUBLISHED[name], HALF_WIDTHS, strict=True):
        if published is not None:
            mean, ours = 100 * mean_and_half_width(values).mean, 100 * mean_and_half_width(values).half_width_95
            assert abs(mean - published) <= np.hypot(ours, theirs), (figure, mean, ours)
