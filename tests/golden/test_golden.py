"""Against the outputs of the published research code.

One case is in the repository, published_case.npz, so that every clone can check it. The other cases need
../shared/data/golden.npz and are skipped without it.
"""

from pathlib import Path

import numpy as np
import pytest

import handful

PUBLISHED_CASE = Path(__file__).with_name("published_case.npz")
CASES = ("balanced_5shot", "few_outliers_5shot", "many_outliers_5shot", "balanced_1shot")
LEARNED = {
    "eol": ("prototypes", "eta", "delta"),
    "eol_prototypes": ("prototypes",),
    "eol_eta": ("prototypes", "eta"),
    "eol_delta": ("prototypes", "delta"),
}
TORCH = pytest.param("torch", marks=pytest.mark.torch)


@pytest.fixture
def golden(case, request):
    """The arrays of a case: from the repository for the first one, from ../shared for the others."""
    if case == CASES[0]:
        return np.load(PUBLISHED_CASE)
    return np.load(request.getfixturevalue("shared") / "data" / "golden.npz")


def test_the_case_in_the_repository_is_that_of_the_published_code(shared):
    assert PUBLISHED_CASE.stat().st_size < 400_000
    with np.load(PUBLISHED_CASE) as part, np.load(shared / "data" / "golden.npz") as whole:
        assert set(part.files) == {"base_mean", *(name for name in whole.files if name.startswith(f"{CASES[0]}/"))}
        for name in part.files:
            np.testing.assert_array_equal(part[name], whole[name].astype(part[name].dtype))


def inputs(golden, case, path):
    arrays = [golden[f"{case}/support"], golden[f"{case}/query"], golden["base_mean"]]
    arrays = [a.astype(np.float32) for a in arrays]
    if path == "torch":
        import torch

        arrays = [torch.from_numpy(a) for a in arrays]
    return arrays


def agrees(golden, case, name, result):
    for what in ("probabilities", "outlier_scores"):
        difference = np.abs(np.asarray(getattr(result, what)) - golden[f"{case}/{name}/{what}"])
        assert np.median(difference) <= 2e-6, f"{what}: median {np.median(difference):.1e}"
        assert difference.max() <= 2e-3, f"{what}: maximum {difference.max():.1e}"


@pytest.mark.parametrize("path", ["numpy", "kernel", TORCH, "numpy float64"])
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("case", CASES)
def test_eol_and_its_ablations_reproduce_the_published_code(golden, case, name, path):
    support, query, mean = inputs(golden, case, path)
    result = handful.solve(
        support,
        golden[f"{case}/support_labels"],
        query,
        method="eol",
        base_mean=mean,
        b=float(golden[f"{case}/b"]),
        marginal_weight="shots",
        learn=LEARNED[name],
        backend="auto" if path == "kernel" else "array",
        dtype="float64" if "64" in path else "float32",
    )
    agrees(golden, case, name, result)


@pytest.mark.parametrize("path", ["numpy", TORCH])
@pytest.mark.parametrize("name", ["knn", "simpleshot", "oslo", "bdcspn", "laplacianshot", "pt_map", "openmax"])
@pytest.mark.parametrize("case", CASES)
def test_closed_form_methods_reproduce_the_published_code(golden, case, name, path):
    support, query, mean = inputs(golden, case, path)
    knobs = {"weibull": False} if name == "openmax" else {}
    labels = golden[f"{case}/support_labels"]
    agrees(golden, case, name, handful.solve(support, labels, query, method=name, base_mean=mean, **knobs))


@pytest.mark.parametrize("path", ["numpy", "kernel", TORCH])
@pytest.mark.parametrize("name", ["ostim", "tim_gd", "finetune"])
@pytest.mark.parametrize("case", CASES)
def test_methods_on_the_engine_reproduce_the_published_code(golden, case, name, path):
    support, query, mean = inputs(golden, case, path)
    backend = "auto" if path == "kernel" else "array"
    labels = golden[f"{case}/support_labels"]
    agrees(golden, case, name, handful.solve(support, labels, query, method=name, base_mean=mean, backend=backend))


@pytest.mark.parametrize("name", ["ocsvm", "pca", "copod"])
@pytest.mark.parametrize("case", CASES)
def test_detectors_reproduce_the_published_code(golden, case, name):
    """Relative to the largest score. The last bit of a normalised feature can swap two ranks, which COPOD counts."""
    pytest.importorskip("pyod")
    support, query, mean = inputs(golden, case, "numpy")
    result = handful.solve(support, golden[f"{case}/support_labels"], query, method=name, base_mean=mean)
    expected = golden[f"{case}/{name}/outlier_scores"]
    difference = np.abs(result.outlier_scores - expected) / np.abs(expected).max()
    assert np.median(difference) <= 1e-5
    assert difference.max() <= (5e-5 if name == "copod" else 1e-5)
    np.testing.assert_allclose(result.probabilities, golden[f"{case}/{name}/probabilities"], atol=2e-6)
