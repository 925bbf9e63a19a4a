"""Groups of unknowns of a labelled pile: told of, and made into classes by `handful promote`."""

import json
import re
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from piles import assert_refused, contents, rows_of

from handful.features import FeatureTable, digits, write
from handful.project.events import Store
from handful.project.promotion import promote, share_after
from handful.project.summary import groups_in_words, swings
from handful.solving.groups import Group


def table(path, seed=2, sizes=(16, 15, 12, 8), shown=4):
    """Embeddings of four kinds, of which two have a few labels."""
    rng = np.random.default_rng(seed)
    centres, kinds = 2 * rng.normal(size=(len(sizes), 32)), np.repeat(np.arange(len(sizes)), sizes)
    x = centres[kinds] + 0.5 * rng.normal(size=(len(kinds), 32))
    names = np.array(["cat", "dog", "hen", "owl"])[kinds]
    lines = ["path,label," + ",".join(f"x{j}" for j in range(32))]
    for i, (row, kind, name) in enumerate(zip(x, kinds, names, strict=True)):
        place = i - int(np.flatnonzero(kinds == kind)[0])
        label = name if kind < 2 and place < shown else ""
        lines.append(f"{name}{place:02},{label}," + ",".join(f"{v:.6f}" for v in row))
    path.write_text("\n".join(lines) + "\n")


def kind_of(row):
    return row["path"].removesuffix(".png").rstrip("0123456789")


def record_of(folder):
    return json.loads((folder / "results.json").read_text())


LABEL = ("label", "t.csv", "-o", "out", "--outlier-share", 0.46, "--method", "kdo")


@pytest.fixture
def out(tmp_path, handful):
    table(tmp_path / "t.csv")
    done = handful(*LABEL)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "The 20 unknowns fall into about 2 groups of 12 and 8." in said
    assert "handful promote out 1=NAME" in said
    return tmp_path / "out"


def test_sentences_count_the_groups_and_those_in_none():
    for sizes, unknown, sentence in [
        ([12], 12, "The 12 unknowns fall into one group of 12."),
        ([12], 13, "The 13 unknowns fall into one group of 12; 1 belongs to none."),
        ([41, 22, 20, 9], 97, "The 97 unknowns fall into about 4 groups of 41, 22, 20 and 9; 5 belong to none."),
        ([*range(20, 4, -1)], 200, "The 200 unknowns fall into about 16 groups of 5 to 20."),
    ]:
        groups = [Group(k, np.arange(size), 0.5) for k, size in enumerate(sizes, 1)]
        assert groups_in_words(groups, unknown)[0] == sentence
    assert groups_in_words([], 3) == []


def test_a_group_of_a_table_becomes_a_class_and_the_next_one_keeps_it(out, handful):
    before = contents(out)
    done = handful("promote", "out", "2=owl", "-o", "second")
    assert done.returncode == 0, done.stderr
    assert "3 classes were shown by 4 to 5 examples each; the pile holds 43 items." in " ".join(done.stdout.split())
    assert "5 items of the pile are examples of owl." in done.stdout
    for row in rows_of("second/labels.csv"):
        assert row["label"] == {"hen": "unknown"}.get(kind_of(row), kind_of(row)), row
    assert contents(out) == before
    assert_refused(handful("promote", "second", "1=owl"), "there is a class 'owl' already")
    said = json.loads(handful("promote", "second", "1=hen", "--json", "--examples", 3).stdout)
    assert said["unknown"] == 0
    assert said["labels"] == {"cat": 12, "dog": 11, "hen": 12, "owl": 8}
    assert said["files"]["labels.csv"].endswith("/second/labels.csv")  # in the same folder, where nothing else is said
    promoted = record_of(out.parent / "second")["job"]["promoted"]
    assert {name: len(items) for name, items in promoted.items()} == {"owl": 5, "hen": 3}
    said = json.loads(handful("label", "second", "--undo", "--json").stdout)
    assert said["unknown"] == 12
    promoted = record_of(out.parent / "second")["job"]["promoted"]
    assert {name: len(items) for name, items in promoted.items()} == {"owl": 5}
    done = handful("promote", "out", "1=cat", "--join", "-o", "joined")
    assert "5 items of the pile are examples of cat." in " ".join(done.stdout.split())
    assert {row["label"] for row in rows_of("joined/labels.csv") if kind_of(row) == "hen"} == {"cat"}


def test_promote_keeps_the_share_that_label_estimated_less_the_group(tmp_path, handful):
    table(tmp_path / "t.csv")
    first = json.loads(handful("label", "t.csv", "-o", "out", "--json").stdout)
    low, high = first["outlier_share_interval"]
    assert low < 20 / 43 < high
    done = handful("promote", "out", "1=hen", "-o", "second")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "of the pile look unknown, as before the groups became classes, less them." in said
    assert "Warning" not in said
    second = record_of(tmp_path / "second")
    share = second["job"]["decision"]["outlier_share"]
    assert share == pytest.approx(first["outlier_share"] * (8 / 20) / (38 / 43))
    assert (second["outlier_share"], second["outlier_share_told"]) == (share, False)
    assert second["unknown"] == 8
    anew = json.loads(handful("promote", "out", "1=hen", "-o", "anew", "--outlier-share", "auto", "--json").stdout)
    low, high = anew["outlier_share_interval"]
    assert low < 8 / 38 < high
    third = json.loads(handful("promote", "second", "1=owl", "--json", "--outlier-share", 0.02).stdout)
    assert (third["outlier_share"], third["outlier_share_told"], third["unknown"]) == (0.02, True, 0)


@pytest.fixture
def digit_table(tmp_path):
    """Digits 0, 1, 2 and 4 have examples; threes and nines of the pile are found as one group, the largest."""
    x, y = digits()
    rows = np.concatenate([np.flatnonzero(y == k)[:30] for k in range(10)])
    place = np.arange(len(rows)) % 30
    labels = [str(y[i]) if y[i] in (0, 1, 2, 4) and k < 5 else None for i, k in zip(rows, place, strict=True)]
    paths = [f"{y[i]}-{k:02}" for i, k in zip(rows, place, strict=True)]
    keep = [n for n, i in enumerate(rows) if labels[n] or place[n] >= 5]
    write(FeatureTable(x[rows], labels, paths).take(keep), tmp_path / "d.parquet")


def test_a_group_of_several_kinds_is_said_and_each_kind_becomes_a_class(tmp_path, handful, digit_table):
    said = " ".join(handful("label", "d.parquet", "-o", "out").stdout.split())
    assert re.search(r"Group 1 looks like 2 kinds, of \d+ and \d+\.", said)
    assert "To split group 1 into its kinds: handful promote out 1.1=NAME1 1.2=NAME2" in said
    done = handful("promote", "out", "1.1=first", "1.2=second", "-o", "second", "--json")
    answer = json.loads(done.stdout)
    assert answer["warnings"] == []
    rows = rows_of("second/labels.csv")
    found = [[row["path"][0] for row in rows if row["label"] == name] for name in ("first", "second")]
    assert sorted(max(set(there), key=there.count) for there in found) == ["3", "9"]
    assert_refused(handful("promote", "out", "1=x", "1.2=y"), "group 1 is named, and 1.2 in it too")
    assert_refused(handful("promote", "out", "1.7=x"), "there is no 1.7 in group 1: its kinds are 1.1 to 1.2")


def test_a_promotion_that_swings_is_warned_of_with_the_way_back(tmp_path, handful, digit_table):
    groups = json.loads(handful("label", "d.parquet", "-o", "out", "--json").stdout)["groups"]
    names = [f"{group['number']}=all" for group in groups]
    promote = ("promote", "out", *names, "--examples", 1, "--outlier-share", 0.6)
    said = " ".join(handful(*promote, "-o", "second").stdout.split())
    assert "To go back to the labels of before: handful label second --undo" in said
    warnings = json.loads(handful(*promote, "-o", "third", "--json").stdout)["warnings"]
    assert f"Warning: {warnings[0]}" in said
    assert warnings[0].split(":")[0] in (tmp_path / "second" / "report.html").read_text()


def test_what_a_promotion_has_changed_more_than_it_explains_is_said():
    before = ["cat"] * 60 + ["dog"] * 20 + ["unknown"] * 20
    calm = ["cat"] * 60 + ["dog"] * 20 + ["hen"] * 12 + ["unknown"] * 8
    assert swings(before, calm, {"hen": range(80, 92)}) == []
    after = ["cat"] * 50 + ["unknown"] * 10 + ["dog"] * 20 + ["hen"] * 5 + ["unknown"] * 15
    assert swings(before, after, {"hen": range(80, 92)}) == [
        "Only 5 of the 12 items that should be hen were labelled so.",
        "25 items are unknown now; about 8 were expected, which is 20 less the groups that are classes now.",
        "10 items that are in none of these groups have another label now (10 % of the pile).",
    ]


def test_what_cannot_be_promoted_is_refused_in_a_sentence(out, handful):
    before = contents(out.parent)
    for words, sentence in [
        (("out", "3=hen"), "there is no group 3: they are numbered 1 to 2"),
        (("out", "1=cat"), "there is a class 'cat' already"),
        (("out", "1=unknown"), "means unknown"),
        (("out", "hen"), "'hen': give the number of a group and a name for its class, as 2=mushroom"),
        (("out", "1="), "give the number of a group"),
        (("out", "1=hen", "1=owl"), "group 1 is named twice"),
        (("none", "1=hen"), "there is no folder 'none'"),
        ((".", "1=hen"), "has no project.sqlite"),
        (("out", "1.1=hen"), "there is no 1.1 in group 1: it looks like one kind"),
        (("out", "1.x=hen"), "give the number of a group"),
        (("out", "1=hen", "--outlier-share", "3"), "between 0 and 1"),
        (("out", "1=hen", "--outlier-share", "few"), "--outlier-share 'few': give auto, or a number between 0 and 1"),
    ]:
        assert_refused(handful("promote", *words), sentence)
        assert contents(out.parent) == before


def test_an_item_that_is_gone_is_not_promoted_with_its_group(out):
    with closing(Store(out)) as store:
        run = store.run()
        gone, *others = run.facts["groups"][0]
        store.take_items("pile", [name for name, item in names_of(store).items() if item != gone])
        promote(store, run, {1: "hen"}, examples=len(others) + 1)
        assert {item for item, code in store.said.labels.items() if store.said.names()[code] == "hen"} == {*others}


def names_of(store):
    return {name: item for (_, name), item in store.item_numbers().items()}


def test_results_without_groups_or_damaged_are_told_of(out, handful):
    groups = {"groups": [], "exemplars": [], "parts": []}
    with closing(sqlite3.connect(out / "project.sqlite")) as db, db:
        (facts,) = db.execute("SELECT facts FROM runs").fetchone()
        db.execute("UPDATE runs SET facts = ?", (json.dumps(json.loads(facts) | groups),))
    assert_refused(handful("promote", "out", "1=hen"), "form no groups")
    with closing(sqlite3.connect(out / "project.sqlite")) as db, db:
        db.execute("DELETE FROM meta WHERE key = 'job'")
    assert_refused(handful("promote", "out", "1=hen"), "does not say what was labelled")
    (out / "project.sqlite").write_bytes(b"no database" * 1000)
    assert_refused(handful("promote", "out", "1=hen"), "cannot be used")


def test_a_table_that_changed_or_went_is_told_of(out, handful):
    table(out.parent / "t.csv", seed=3)
    assert_refused(handful("promote", "out", "1=hen"), "an example of 'hen', has changed since")
    (out.parent / "t.csv").unlink()
    assert_refused(handful("promote", "out", "1=hen"), "which these results were made from, is gone")


def test_items_that_a_person_called_unknown_are_among_the_unknowns_of_before():
    """Ten of twenty items were unknown, two of them by a person, and four became a class: three fifths are left."""
    said = SimpleNamespace(promoted={5: range(4)})
    store = SimpleNamespace(said=said, item_facts=lambda: dict.fromkeys(range(20), SimpleNamespace(came_as=None)))
    answers = SimpleNamespace(likely_unknown=np.arange(18) < 8)
    run = SimpleNamespace(ids=range(18), given_labels={18: 0, 19: 0}, answers=answers, facts={"share_low": None})
    shares, is_estimated = share_after(store, run, {"outlier_share": 0.5}, examples=2)
    assert shares == {"outlier_share": pytest.approx(0.5 * 0.6 / 0.9)}
    assert not is_estimated
