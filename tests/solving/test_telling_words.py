"""The words that speak for a group of texts against all others."""

import csv
import unicodedata

import numpy as np

from handful.solving.telling_words import join_words, split_words, telling_words

MONEY = ["what is the exchange rate", "the exchange rate of the pesos", "dollars in pesos", "the exchange rate please"]
OTHER = ["what is the time", "is the light on", "the kitchen light please", "the time of the train", "in the kitchen"]


def test_the_words_of_a_group_come_before_words_that_all_texts_have():
    words, lights = telling_words(MONEY + OTHER, [range(4), [5, 6]], 2)
    assert words == ["exchange rate", "pesos"]
    assert lights == ["light"]


def test_the_order_is_that_of_the_z_scores_written_out():
    """An independent computation, word by word."""
    rng = np.random.default_rng(3)
    vocabulary = [f"w{k}" for k in range(60)]
    texts = [" ".join(rng.choice(vocabulary, 6)) for _ in range(200)]
    texts[:40] = [
        f"{'w1 ' * (n % 4 > 0)}{text}{' w2' * (n % 2)}{' w3' * (n % 3 > 1)}" for n, text in enumerate(texts[:40])
    ]
    sets = [set(text.split()) for text in texts]
    ours = {w: sum(w in one for one in sets[:40]) for w in vocabulary}
    rest = {w: sum(w in one for one in sets[40:]) for w in vocabulary}
    prior = {w: 0.1 * (ours[w] + rest[w]) + 0.5 for w in vocabulary}

    def log_odds(counts, w):
        total = sum(counts[v] + prior[v] for v in vocabulary)
        return np.log((counts[w] + prior[w]) / (total - counts[w] - prior[w] + 1))

    def score(w):
        spread = np.sqrt(1 / (ours[w] + prior[w]) + 1 / (rest[w] + prior[w]))
        frequent = np.log(ours[w] + rest[w]) / np.log(len(texts) + 1 + 50)
        return (log_odds(ours, w) - log_odds(rest, w)) / spread * (1 - frequent)

    rare = [w for w in vocabulary if rest[w] <= 0.1 * 160 + 1]
    expected = [w for w in sorted(rare, key=score, reverse=True) if score(w) >= 0.6]
    (words,) = telling_words(texts, [np.arange(40)], 100)
    assert "w1" in expected[:2]
    assert len(expected) > 3
    assert words == expected


def test_groups_may_be_empty_overlap_or_hold_everything():
    texts = MONEY + OTHER
    found = telling_words(texts, [[], range(4), [0, 1, 3], range(9)], 1)
    assert found[:3] == [[], ["exchange rate"], ["exchange rate"]]
    assert telling_words(texts, []) == []
    assert telling_words(texts, [range(4)], 0) == [[]]
    assert telling_words(["a b", "a b"], [[0, 1, 1, 1]]) == [[]]  # there is nothing else to tell it from
    for texts in [[""] * 6, ["\0", " ", "\n", "🙂", "…", "?!"], ["same"] * 6]:
        assert telling_words(texts, [[0, 1, 2]]) == [[]]


def test_words_of_all_scripts():
    arabic = [unicodedata.normalize("NFKC", word) for word in ("سِعْرُ", "الصَّرْف", "اليوم")]
    for text, words in {
        "go🙂home\0now ❤️": ["go", "home", "now"],
        "STRASSE Straße \uff21\uff22\uff23 What\u2019s what's": ["strasse", "strasse", "abc", "what's", "what's"],
        "rock'n'roll 'quoted' it's_me x": ["rock'n'roll", "quoted", "it's", "me", "x"],
        "विनिमय दर क्या है?": ["विनिमय", "दर", "क्या", "है"],  # marks belong to the word
        "سِعْرُ الصَّرْف، اليوم": arabic,
        "می‌خواهم": ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"],
        "key " + "a" * 5000 + " ok": ["key", "ok"],  # a run of characters that is no word
        "汇率": ["汇", "率"],
    }.items():
        assert split_words(text) == words


def test_texts_of_right_to_left_and_of_chinese_have_telling_words():
    texts = [
        "מה שער הדולר היום", "שער הדולר בבקשה", "מה השעה היום", "תדליק את האור בבקשה",
        "ما سعر الصرف", "سعر الصرف اليوم",
    ]  # fmt: skip
    assert telling_words(texts, [[0, 1], [4, 5]], 1) == [["שער הדולר"], ["سعر الصرف"]]
    texts = ["今天汇率是多少", "美元的汇率", "请问汇率", "今天天气好吗", "请问几点了", "播放下一首歌"]
    assert telling_words(texts, [[0, 1, 2]], 1) == [["汇率"]]
    assert join_words(["汇", "率", "usd", "rate"]) == "汇率 usd rate"


def test_plain_texts_are_split_as_all_others_are():
    """There is a faster pattern for ASCII: an accent at the end must change nothing before it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        text = "".join(rng.choice(list("ab'-_ 1.Z\n\0~"), 30))
        assert split_words(f"{text} \u00e9")[:-1] == split_words(text)


def test_the_words_of_an_intent_say_what_it_is_about(shared):
    with (shared / "texts" / "clinc_40.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    intents = np.array([row["intent"] for row in rows])
    names = sorted(set(intents) - {"oos"})
    words = telling_words([row["text"] for row in rows], [np.flatnonzero(intents == name) for name in names], 5)
    about = dict(zip(names, words, strict=True))
    assert about["weather"][0] == "weather"
    assert about["interest_rate"][0] == "interest rate"
    assert "plug" in about["plug_type"]
    assert "todo" in about["todo_list"]
    # Most intents are named after a word that people use for them.
    named = [any(part[:4] in " ".join(about[name]) for part in name.split("_")) for name in names]
    assert np.mean(named) >= 0.8
