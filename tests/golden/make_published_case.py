"""Copy one case of the published code's outputs from ../shared/data/golden.npz into published_case.npz, once.

    python tests/golden/make_published_case.py

Inputs stay float16, as they are in the source. Outlier scores are stored as float32, whose rounding is below every
tolerance of the test; labels as int8.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CASE = "balanced_5shot"
KINDS = {"float64": np.float32, "int64": np.int8}

if __name__ == "__main__":
    with np.load(HERE.parents[2] / "shared" / "data" / "golden.npz") as golden:
        names = ["base_mean", *(name for name in golden.files if name.startswith(f"{CASE}/"))]
        arrays = {name: golden[name].astype(KINDS.get(str(golden[name].dtype), golden[name].dtype)) for name in names}
    np.savez_compressed(HERE / "published_case.npz", allow_pickle=False, **arrays)
