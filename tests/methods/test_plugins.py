"""Methods from outside: a package that is installed beside handful and names a module in the group `handful.methods`.

The packages here are what pip leaves behind, a module and its metadata in a folder on the path, found by the real
`importlib.metadata` in a fresh interpreter.
"""

import json
import os
import subprocess
import sys
from textwrap import dedent

import pytest

MANHATTAN = '''
"""The nearest example by Manhattan distance."""

import numpy as np
from handful import register
from handful.methods import Info, Solution
from handful.core.parameters import NotNegative, Positive


INFO = Info(
    name="manhattan",
    estimator="Manhattan",
    title="Manhattan distance",
    authors="A User",
    year=2026,
    paper="none",
    setting="detector",
    preparation=("none",),
    summary="Outlier score: Manhattan distance to the nearest example.",
    by_shots={"floor": {"1": 0.0, "5": 0.5}},
)


@register(INFO)
def manhattan(support, labels, query, *, scale: Positive = 1.0, floor: NotNegative = None):
    away = scale * np.abs(query[:, :, None] - support[:, None]).sum(axis=-1)  # [B, Q, S]
    nearest = np.take_along_axis(labels, away.argmin(axis=-1), axis=1)
    return Solution(np.eye(labels.max() + 1)[nearest], np.maximum(away.min(axis=-1), floor))


@register("all_alike")
def all_alike(support, labels, query):
    """Knows nothing."""
    return Solution(np.full((*query.shape[:2], labels.max() + 1), 0.5), np.zeros(query.shape[:2]))
'''


def install(folder, name, module, source):
    """A distribution as it lies in site-packages."""
    (folder / f"{module}.py").write_text(source)
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[handful.methods]\n{name} = {module}\n")


def answers(folder, script):
    """What a script, run where the folder is on the path, prints as JSON."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def folder(tmp_path):
    install(tmp_path, "handful-manhattan", "handful_manhattan", MANHATTAN)
    return tmp_path


def test_a_method_from_outside_works_everywhere_by_its_name(folder):
    said, warnings = answers(
        folder,
        """
        import json, pickle
        import numpy as np
        import handful

        support, labels = [[0.0, 0.0], [4.0, 0.0]], ["ant", "bee"]
        query = [[1.0, 2.0], [4.0, -1.0], [9.0, 9.0]]
        result = handful.solve(support, labels, query, method="manhattan", outlier_share=1 / 3)
        model = handful.make_estimator("manhattan", scale=2.0, outlier_share=1 / 3)
        model.fit(support + query, labels + [None] * 3)
        pair = handful.solve(support, labels, query, method="simpleshot+manhattan", manhattan_floor=3.5)
        path = model.save("MODEL")
        five = handful.solve(np.repeat(support, 5, axis=0), np.repeat(labels, 5), query, method="manhattan")
        alike = handful.describe("all_alike")
        try:
            handful.solve(support, labels, query, method="manhattan", scale=-1.0)
        except ValueError as error:
            wrong = str(error)
        print(json.dumps({
            "scores": result.outlier_scores.tolist(),
            "labels": result.labels.tolist(),
            "transduction": model.transduction_.tolist(),
            "new": model.predict([[4.0, 3.0]]).tolist(),
            "score": -model.score_samples([[4.0, 3.0]])[0],
            "class": type(model).__name__,
            "loaded": type(handful.load(path)) is type(model),
            "pickled": pickle.loads(pickle.dumps(model)).predict([[4.0, 3.0]]).tolist(),
            "pair": pair.outlier_scores.tolist(),
            "floors": [r.made_by["parameters"]["floor"] for r in (result, five)],
            "listed": handful.list_methods(),
            "wrong": wrong,
            "alike": [alike.summary, alike.estimator, alike.paradigm, alike.score],
            "no opinion": handful.solve(support, labels, query, method="all_alike").probabilities.tolist(),
        }))
        """.replace("MODEL", str(folder / "model.safetensors")),
    )
    assert warnings == ""
    assert said["scores"] == [3, 1, 14]
    assert said["labels"] == ["ant", "bee", "unknown"]
    assert said["transduction"] == ["ant", "bee", "ant", "bee", "unknown"]
    assert (said["new"], said["score"], said["pickled"]) == (["bee"], 6.0, ["bee"])
    assert said["class"] == "Manhattan"
    assert said["loaded"]
    assert said["wrong"] == "scale of manhattan must be a number above 0, got -1.0"
    assert said["pair"] == [3.5, 3.5, 14]
    assert said["floors"] == [0.0, 0.5]
    assert {"manhattan", "eol"} <= set(said["listed"])
    assert said["alike"] == ["Knows nothing.", "AllAlike", "inductive", "rank"]  # it said no more than its name
    assert said["no opinion"] == [[0.5, 0.5]] * 3


def test_a_broken_package_is_named_in_a_warning_and_the_rest_works(folder):
    source = "import handful\n@handful.register('half', naming='Half')\ndef half(s, l, q): ...\n"
    install(folder, "handful-broken", "handful_broken", source)
    said, warnings = answers(
        folder,
        """
        import json
        import handful

        task = [[0.0, 1.0], [4.0, 1.0]], ["ant", "bee"], [[1.0, 1.0], [3.5, 1.0]]
        found = [handful.solve(*task, method=name).closest.tolist() for name in ("manhattan", "eol")]
        print(json.dumps([*found, "half" in handful.list_methods()]))
        """,
    )
    assert said == [["ant", "bee"], ["ant", "bee"], False]
    assert warnings.count("RuntimeWarning") == 1
    assert "methods of 'handful_broken' could not be loaded" in warnings
    assert "TypeError" in warnings
