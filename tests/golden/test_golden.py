"""Against the outputs of the published research code.

One case is in the repository, published_case.npz, so that every clone can check it. The other cases need
../shared/data/golden.npz and are skipped without it.
"""

from pathlib import Path

import numpy as np
import pytest
from loops import loop

import handful

PUBLISHED_CASE = Path(__file__).with_name("published_case.npz")
CASES = ("balanced_5shot", "few_outliers_5shot", "many_outliers_5shot", "balanced_1shot")
PARTS = {
    "eol": ("prototypes", "eta", "delta"), "eol_prototypes": ("prototypes",), "eol_eta": ("prototypes", "eta"),
    "eol_delta": ("prototypes", "delta"),
}  # fmt: skip
ENGINE = (*PARTS, "ostim", "tim_gd", "finetune")
CLOSED_FORM = ("knn", "simpleshot", "oslo", "bdcspn", "laplacianshot", "pt_map", "openmax")


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


def solved(golden, case, name, path="array"):
    """The result of a method on the published features; EOL with the b and the weights of the published code."""
    arrays = [golden[f"{case}/{part}"].astype(np.float32) for part in ("support", "query")]
    if path == "torch":
        import torch

        arrays = list(map(torch.from_numpy, arrays))
    options = {"method": name, "base_mean": golden["base_mean"].astype(np.float32)}
    if name in PARTS:
        options |= {"method": "eol", "b": float(golden[f"{case}/b"]), "marginal_weight": "shots", "learn": PARTS[name]}
    if name in ENGINE:
        options |= {"backend": "auto" if path == "kernel" else "array"}
    options |= {"weibull": False} if name == "openmax" else {}
    dtype = "float64" if path == "double" else "float32"
    return handful.solve(arrays[0], golden[f"{case}/support_labels"], arrays[1], dtype=dtype, **options)


@pytest.mark.parametrize("case", CASES)
@loop("name", (*ENGINE, *CLOSED_FORM))
def test_methods_reproduce_the_published_code(golden, case, name):
    for path in ("array", "kernel", "double") if name in ENGINE else ("array",):
        agrees(golden, case, name, solved(golden, case, name, path))


@loop("name", (*ENGINE, *CLOSED_FORM))
def test_torch_reproduces_the_published_code(torch, name):
    golden, threads = np.load(PUBLISHED_CASE), torch.get_num_threads()
    torch.set_num_threads(1)  # tasks this small are not worth more
    try:
        agrees(golden, CASES[0], name, solved(golden, CASES[0], name, "torch"))
    finally:
        torch.set_num_threads(threads)


def agrees(golden, case, name, result):
    for what in ("probabilities", "outlier_scores"):
        difference = np.abs(np.asarray(getattr(result, what)) - golden[f"{case}/{name}/{what}"])
        assert np.median(difference) <= 2e-6, f"{what}: median {np.median(difference):.1e}"
        assert difference.max() <= 2e-3, f"{what}: maximum {difference.max():.1e}"


@pytest.mark.parametrize("case", CASES)
@loop("name", ["ocsvm", "pca", "copod"])
def test_detectors_reproduce_the_published_code(golden, case, name):
    """Relative to the largest score. The last bit of a normalised feature can swap two ranks, which COPOD counts."""
    pytest.importorskip("pyod")
    result = solved(golden, case, name)
    expected = golden[f"{case}/{name}/outlier_scores"]
    difference = np.abs(result.outlier_scores - expected) / np.abs(expected).max()
    assert np.median(difference) <= 1e-5
    assert difference.max() <= (5e-5 if name == "copod" else 1e-5)
    np.testing.assert_allclose(result.probabilities, golden[f"{case}/{name}/probabilities"], atol=2e-6)
