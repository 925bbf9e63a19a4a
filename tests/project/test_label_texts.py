"""The practitioner's job with texts: tables, JSON Lines and folders of text files."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from piles import assert_refused, rows_of
from pyarrow import parquet
from text_piles import EXAMPLES, SENTENCES, fill_texts, rows, truth, write_tickets

from handful.backbones import load_backbone
from handful.project import Project, read_items
from handful.project.items import Reading, kind_of
from handful.project.labelling import label_items, predict_items
from handful.project.reading import read_new_items

RIGHT = truth()


def hashed(texts):
    """A backbone of a user's own: words in 64 drawers."""
    features = np.zeros((len(texts), 64))
    for row, text in enumerate(texts):
        for word in text.split():
            features[row, sum(word.encode()) % 64] += 1
    return features


def is_right(rows, share=0.9):
    right = [row["label"] == RIGHT[row["text"]] for row in rows]
    return sum(right) >= share * len(right)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_tickets(folder / "tickets.csv", more=[("", ""), ("  ", "card"), ("\u200b", "")])
    return fill_texts(folder)


@pytest.fixture
def out(folder, handful):
    if not (folder / "out").exists():
        done = handful("label", folder / "tickets.csv", "-o", folder / "out", "--export", "label-studio")
        assert done.returncode == 0, done.stderr
        (folder / "said.txt").write_text(done.stdout)
    return folder / "out"


# One table


def test_texts_get_their_class_and_strangers_are_set_aside(out):
    table = rows_of(out / "labels.csv")
    assert is_right([row for row in table if row["text"].strip(" \u200b")])
    assert {row["label"] for row in table} == {"card", "weather", "unknown"}


def test_every_row_of_the_pile_is_there_in_order_with_all_columns(folder, out):
    pile = [row for row in rows_of(folder / "tickets.csv") if not row["label"]]
    table = parquet.read_table(out / "labels.parquet").to_pylist()
    assert [[row[name] for name in ("path", "text", "price")] for row in table] == [
        [row[name] for name in ("id", "text", "price")] for row in pile
    ]


def test_what_was_guessed_and_left_out_is_said(folder, out):
    said = " ".join((folder / "said.txt").read_text().split())
    assert "the texts are in the column 'text', by its name; the labels in 'label'" in said
    assert "the pile holds 30 texts" in said
    assert "2 rows of the pile have no text: called unknown" in said
    assert "'037': has a label but no text: it is no example" in said


def test_rows_without_a_text_are_unknown_and_nobody_is_asked_about_them(folder, out, handful, monkeypatch):
    table = parquet.read_table(out / "labels.parquet").to_pylist()
    empty = [row for row in table if not row["text"].strip(" \u200b")]
    assert [(row["label"], row["p_unknown"], row["group"], row["nearest_1"]) for row in empty] == [
        ("unknown", 1.0, None, None)
    ] * 2
    record = json.loads((out / "results.json").read_text())
    names = [row["path"] for row in table]
    asked = {names[row] for row in record["worth_asking"]}
    assert asked
    assert asked.isdisjoint(row["path"] for row in empty)
    items = {question.name: question.text for question in Project(out).check(100)}
    assert len(items) == 28
    assert all(text.strip() for text in items.values())


def test_empty_rows_do_not_change_the_answers_for_the_others(folder, out, handful, tmp_path):
    write_tickets(tmp_path / "plain.csv")
    assert handful("label", "plain.csv", "-o", "plain").returncode == 0
    plain = {row["text"]: row["p_unknown"] for row in rows_of(tmp_path / "plain" / "labels.csv")}
    mixed = {row["text"]: row["p_unknown"] for row in rows_of(out / "labels.csv")}
    for text, p in plain.items():
        assert float(mixed[text]) == pytest.approx(float(p), abs=1e-6)


# Other sources


@pytest.fixture
def solved(handful, tmp_path):
    """Run `label` and give its table."""

    def solve(*arguments):
        done = handful("label", *arguments, "-o", "o", "--overwrite")
        assert done.returncode == 0, done.stderr
        return parquet.read_table(tmp_path / "o" / "labels.parquet").to_pylist()

    return solve


def test_folders_of_text_files_are_labelled_and_sorted(solved, tmp_path):
    fill_texts(tmp_path)
    (tmp_path / "pile" / "empty.txt").touch()
    (tmp_path / "examples" / "unknown").mkdir()
    for i, text in enumerate(("how do i fry an onion", "a dish with beans")):
        (tmp_path / "examples" / "unknown" / f"{i}.md").write_text(text)
    table = solved("examples", "pile", "--sort", "copy")
    assert is_right([row for row in table if row["path"] != "empty.txt"])
    assert "unknown" in {row["nearest_1"].partition("/")[0] for row in table if row["nearest_1"]}
    assert {row["path"] for row in table} == {file.name for file in (tmp_path / "pile").iterdir()}
    for row in table:
        assert (tmp_path / "o" / "sorted" / row["label"] / row["path"]).read_text() == row["text"]
    assert (tmp_path / "o" / "sorted" / "unknown" / "empty.txt").exists()


def test_two_tables_and_examples_of_no_class(tmp_path, solved):
    labelled = [(text, label) for text, label, _ in rows() if label]
    (tmp_path / "shown.jsonl").write_text(
        "\n".join(json.dumps({"utterance": text, "intent": label}) for text, label in labelled)
    )
    pile = [text for text, label, _ in rows() if not label]
    parquet.write_table(pa.table({"n": range(len(pile)), "text": pile[::-1], "utterance": pile}), "pile.parquet")
    (tmp_path / "none.csv").write_text("utterance\n" + "\n".join(SENTENCES["cooking"][:3]))
    table = solved("shown.jsonl", "pile.parquet", "--unknown", "none.csv")
    assert [row["utterance"] for row in table] == pile  # the column of the examples, though there is one called text
    assert [row["n"] for row in table] == list(range(len(pile)))
    assert sum(row["label"] == RIGHT[row["utterance"]] for row in table) >= 0.9 * len(table)
    assert {row["nearest_1"].partition("/")[0] for row in table} >= {"none.csv"}


def test_a_pile_needs_no_column_of_labels_and_may_have_its_texts_in_another(tmp_path, solved):
    write_tickets(tmp_path / "shown.csv", more=[("how do i fry an onion", "unknown"), ("a dish with beans", "Unknown")])
    (tmp_path / "shown.csv").write_text((tmp_path / "shown.csv").read_text().replace("label", "thing", 1))
    (tmp_path / "pile.csv").write_text("message\n" + "\n".join(SENTENCES["card"][6:] + SENTENCES["cooking"]))
    table = solved("shown.csv", "pile.csv", "--label", "thing")
    assert [row["message"] for row in table][:6] == SENTENCES["card"][6:]
    assert {row["label"] for row in table[6:]} == {"unknown"}  # of which two examples were given


# Going on from results


def test_corrections_become_examples_and_groups_become_classes(folder, out, handful, tmp_path):
    wrong = next(row for row in rows_of(out / "labels.csv") if row["text"] == SENTENCES["cooking"][5])
    (tmp_path / "c.csv").write_text(f"path,label\n{wrong['path']},cooking\n036,card\n")
    done = handful("label", out, "--corrections", "c.csv", "-o", "again")
    assert done.returncode == 0, done.stderr
    table = {row["path"]: row for row in rows_of(tmp_path / "again" / "labels.csv")}
    assert table[wrong["path"]]["label"] == "cooking"
    assert table["036"]["label"] == "unknown"  # it has no text
    assert "'036': has a label but no text" in done.stdout
    done = handful("promote", out, "1=cooking", "-o", "promoted", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"]["cooking"] >= 8


def test_a_saved_model_labels_new_texts(folder, out, handful, tmp_path):
    model = out / "model.safetensors"
    (tmp_path / "new.csv").write_text("nr,text\n1,my bank card is gone\n2,\n3,is it going to rain\n")
    assert handful("predict", model, "new.csv", "-o", "new.parquet").returncode == 0
    table = parquet.read_table(tmp_path / "new.parquet").to_pylist()
    assert [row["label"] for row in table] == ["card", "unknown", "weather"]
    assert [row["nr"] for row in table] == ["1", "2", "3"]
    (tmp_path / "a.txt").write_text("my bank card\nis gone")
    done = handful("predict", model, "a.txt")
    assert (done.stdout.split("\t")[0], done.stdout.split("\t")[-1]) == ("card", "my bank card is gone\n")
    assert_refused(handful("predict", model, "a.txt", "new.csv"), "'new.csv' is not a text")


def test_features_of_texts_keep_texts_labels_and_columns(folder, handful, tmp_path):
    done = handful("embed", folder / "tickets.csv", "-o", "f.parquet")
    assert done.returncode == 0, done.stderr
    assert "39 texts, 2 labels, 384 features each" in done.stdout
    table = parquet.read_table(tmp_path / "f.parquet")
    assert table.column_names == ["embedding", "label", "path", "id", "text", "price"]
    assert kind_of(tmp_path / "f.parquet") == "embeddings"
    done = handful("label", "f.parquet", "-o", "o")
    assert "the pile holds 30 texts" in done.stdout
    assert is_right([row for row in rows_of(tmp_path / "o" / "labels.csv") if row["text"].strip(" \u200b")])
    assert rows_of(tmp_path / "o" / "labels.csv")[-1]["label"] == "unknown"  # without a text
    assert handful("embed", folder / "examples", "-o", "e.npz").returncode == 0


def test_questions_show_texts_that_a_terminal_cannot_obey(tmp_path, handful, monkeypatch):
    write_tickets(tmp_path / "t.csv", more=[("\x1b[2J my card\n is\u202e gone " + "x" * 5000, "")])
    assert handful("label", "t.csv", "-o", "o").returncode == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 30))
    said = handful("check", "o", "--answers", 30).stdout
    assert "\\x1b[2J my card is\\u202e gone xxx" in said
    assert not {"\x1b", "\u202e"} & set(said)
    assert "    how do i cook rice\n" in said


# Options that do not fit


OPTIONS_THAT_DO_NOT_CASES = [
    (["tickets.csv", "--sort", "copy"], ["--sort", "table"]),
    (["tickets.csv", "--export", "coco"], ["coco", "texts", "label-studio"]),
    (["examples", "pile", "--export", "fiftyone"], ["fiftyone", "texts"]),
    (["tickets.csv", "--backbone", "pixels"], ["pixels", "pictures", "texts"]),
    (["tickets.csv", "--text", "words"], ["'words'", "'id', 'text', 'label', 'price'"]),
    (["tickets.csv", "--text", "price"], ["'price'", "only numbers"]),
    (["tickets.csv", "--label", "intent"], ["'intent'", "--label"]),
    (["examples"], ["folder of texts to label"]),
    (["examples", "features.npz"], ["features.npz", "texts"]),
]


def test_options_that_do_not_fit_are_refused_before_the_work(folder, handful, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "features.npz").touch()
    for arguments, words in OPTIONS_THAT_DO_NOT_CASES:
        assert_refused(handful("label", *arguments, "-o", tmp_path / "never"), *words)
    write_tickets(tmp_path / "t.csv", more=[("my card was stolen yesterday", "weather")])
    assert_refused(handful("label", tmp_path / "t.csv", "-o", "never"), "same text under two classes")


# In Python


def test_a_function_of_the_user_is_a_backbone(folder):
    net = load_backbone(hashed)
    examples, pile = read_items(folder / "tickets.csv", backbone=net)
    labelled = label_items(examples, pile)
    assert (len(examples), len(pile)) == (2 * EXAMPLES, 30)
    assert labelled.without_text == [28, 29]
    for other in (labelled, *(label_items(examples, pile, method=method) for method in ("simpleshot+knn", "oslo"))):
        assert other.unknown[[28, 29]].all()
        assert np.isfinite(other.confidence).all()
        assert all(28 not in group.items and 29 not in group.items for group in other.groups)
    new = read_new_items(labelled.model, [folder / "tickets.csv"], Reading("", text="text", cache=False), hashed)
    again = predict_items(labelled.model, new)
    assert [str(label) for label in again.labels[-3:]] == ["unknown"] * 3
    assert len(again) == 39
