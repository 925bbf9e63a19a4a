"""Projects that begin with examples: from folders of classes, or from what `handful label` wrote."""

import shutil

import pytest
from workbenches import labels_in, opened, run, write_digits

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from handful.project.live import LiveProject

SHOTS = 3
PIXELS = {"backbone": "pixels"}


@pytest.fixture
def folders(tmp_path, own_cache):
    """examples/0, examples/1 and examples/unknown (drawings of 2), and a pile; gives the kind of each picture."""
    truth = write_digits(tmp_path / "pile", 60, 3)
    (tmp_path / "pile" / "digits.parquet").unlink()
    for kind, name in ((0, "zero"), (1, "one"), (2, "unknown")):
        (tmp_path / "examples" / name).mkdir(parents=True)
        for file in [file for file, of in truth.items() if of == kind][:SHOTS]:
            shutil.move(tmp_path / "pile" / file, tmp_path / "examples" / name / file)
    return tmp_path, truth


def test_folders_of_examples_are_labels_from_the_start(folders):
    folder, truth = folders
    project, client = opened(folder / "pile", examples=folder / "examples", **PIXELS)
    now = client.get("/project").json()
    assert {one["name"]: one["examples"] for one in now["classes"]} == {"zero": SHOTS, "one": SHOTS}
    assert (now["unknown_examples"], now["items"]) == (SHOTS, len(truth))
    after = run(client, project)
    names = {one["id"]: one["name"] for one in after["classes"]} | {0: "unknown"}
    pile = [one for one in client.get("/items?limit=1000").json()["items"] if one["class"] is None]
    right = [names[one["decision"]] == ("zero", "one", "unknown")[truth[one["name"]]] for one in pile]
    assert sum(right) > 0.8 * len(right)
    example = client.get("/ids?view=examples").json()["ids"][0]
    assert client.get(f"/pictures/{example}?size=96").is_success
    exported = client.post("/export", json={"formats": ["sorted"]}).json()
    assert exported["missing"] == 0
    project.close()


def test_labels_of_examples_are_the_users_own_after_the_first_time(folders):
    folder, _ = folders
    project, client = opened(folder / "pile", examples=folder / "examples", **PIXELS)
    first = client.get("/ids?view=examples").json()["ids"][0]
    client.post("/labels", json={"items": [first], "class": 0})
    labels = labels_in(project.store.path)
    project.close()
    project, client = opened(folder / "pile", **PIXELS)  # without them: they are not there, and nothing is lost
    assert client.get("/ids?view=examples").json()["ids"] == []
    project.close()
    shutil.copy(next((folder / "pile").glob("*.png")), folder / "examples" / "one" / "more.png")
    project, client = opened(folder / "pile", examples=folder / "examples", **PIXELS)
    again = labels_in(project.store.path)
    assert {item: again[item] for item in labels} == labels
    assert len(again) == len(labels) + 1
    project.close()


def test_results_of_somebody_else_are_opened_only_if_the_user_agrees(folders, handful, monkeypatch):
    folder, _ = folders
    shutil.rmtree(folder / "examples" / "unknown")
    done = handful("label", folder / "examples", folder / "pile", "-o", folder / "out", "--backbone", "pixels")
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("HANDFUL_CACHE", str(folder / "somebody"))
    with pytest.raises(ValueError, match="was not written by a run of yours"):
        LiveProject(folder / "out")
    LiveProject(folder / "out", agree=lambda request: None).close()
