"""A check: which items are asked, and what is inferred from the answers."""

import json
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import handful
from handful.core.answers import Answers
from handful.solving.check import WRONG, check_answers, draw_sample
from handful.solving.possible_piles import UNKNOWN_PRIOR, Beliefs, Outcome, Prior, Recalibration, possible_piles

CLASSES = np.array(["cat", "dog", "hen"])


def a_pile(items=200, seed=0, is_probability=True, labelled=None):
    """Answers for a pile, and a truth in which their probabilities hold."""
    rng = np.random.default_rng(seed)
    p_unknown = rng.beta(0.4, 0.8, items)
    probabilities = rng.dirichlet([0.2] * 3, items)
    answers = Answers(
        probabilities, p_unknown, CLASSES, 0.5, is_probability=is_probability,
        p_unknown=p_unknown if is_probability else None, labelled=labelled,
    )  # fmt: skip
    truth = np.array([rng.choice(CLASSES, p=row) for row in probabilities], dtype=object)
    truth[rng.random(items) < p_unknown] = "unknown"
    return answers, truth


def said(truth, rows):
    return {int(row): truth[row] for row in rows}


def facts(answers, truth):
    """Precision, share, missed and the precision of each class, counted."""
    labels, is_unknown = answers.labels, truth == "unknown"
    has_label = labels != "unknown"
    by_class = {name: np.mean(truth[labels == name] == name) for name in CLASSES if (labels == name).any()}
    return np.mean((truth == labels)[has_label]), np.mean(is_unknown), np.mean(is_unknown[has_label]), by_class


# ---- which items are asked


def test_a_longer_draw_begins_with_the_shorter_one_and_goes_on_where_items_are_left_out():
    for is_probability in [True, False]:
        answers, _ = a_pile(is_probability=is_probability)
        longest = draw_sample(answers, 1000, seed=3)
        assert sorted(longest) == list(range(200))
        for count in (0, 1, 7, 60):
            assert draw_sample(answers, count, seed=3).tolist() == longest[:count].tolist()
        assert draw_sample(answers, 20, seed=3, exclude=longest[:10]).tolist() == longest[10:30].tolist()
        assert draw_sample(answers, 29, seed=3, exclude=[longest[4]]).tolist() == np.delete(longest, 4)[:29].tolist()
        assert set(draw_sample(answers, 20, seed=1)) != set(longest[:20])
    given = np.arange(200) < 150  # items whose class was given are not asked
    assert sorted(draw_sample(a_pile(labelled=given)[0], 1000)) == list(range(150, 200))


def test_every_label_has_its_turn_and_unsure_ones_more_often():
    answers, _ = a_pile(2000)
    asked = np.zeros(2000)
    for seed in range(30):
        asked[draw_sample(answers, 100, seed=seed)] += 1
    for label in (*CLASSES, "unknown"):
        rows = np.flatnonzero(answers.labels == label)
        order = rows[np.argsort(answers.confidence[rows])]
        unsure, sure = np.array_split(order, 2)
        assert asked[unsure].mean() > 1.2 * asked[sure].mean() > 0


# ---- what is inferred


def test_once_every_item_was_looked_at_everything_is_counted_and_nothing_inferred():
    answers, truth = a_pile()
    checked = check_answers(answers, said(truth, range(200)))
    precision, share, missed, by_class = facts(answers, truth)
    for estimate, fact in ((checked.precision, precision), (checked.share, share), (checked.missed, missed)):
        assert estimate == pytest.approx((fact, fact, fact))
    assert {name: estimate.value for name, estimate in checked.by_class.items()} == pytest.approx(by_class)
    assert all(estimate.low == estimate.high for estimate in checked.by_class.values())
    assert (checked.answers, checked.items, checked.more_to_halve) == (200, 200, 0)


def test_one_label_agrees_with_an_integral_computed_otherwise():
    """Items of one label and one probability: a beta-like posterior of one shift, integrated finely."""
    prior, logit, answers, yes = Prior(0.8, 0.6), 0.5, 12, 9
    shifts = np.linspace(-8, 8, 6001)
    # the common shift is nearly normal: Student's t with 30 degrees of freedom
    common = (1 + (shifts / 0.8) ** 2 / 30) ** -15.5
    total = np.convolve(common, norm.pdf(shifts, scale=0.6), mode="same")
    p = expit(logit + shifts)
    weights = total * p**yes * (1 - p) ** (answers - yes)
    weights /= weights.sum()
    mean = (weights * p).sum()
    fitted = Recalibration.before(prior, 1)
    fitted = fitted.updated(np.full(answers, logit), np.zeros(answers, int), np.arange(answers) < yes)
    drawn = fitted.draw(20_000, np.random.default_rng(0)).probabilities(np.array([logit]), 0)[:, 0]
    assert drawn.mean() == pytest.approx(mean, abs=0.004)
    assert drawn.var() == pytest.approx((weights * (p - mean) ** 2).sum(), rel=0.06)
    evidence = (total / total.sum() * p**yes * (1 - p) ** (answers - yes)).sum()
    assert fitted.log_evidence == pytest.approx(np.log(evidence), abs=0.01)


def test_intervals_hold_the_truth_about_nine_times_in_ten_where_probabilities_are_right():
    held, widths = np.zeros(3), []
    for seed in range(120):
        answers, truth = a_pile(150, seed)
        checked = check_answers(answers, said(truth, draw_sample(answers, 25, seed=seed)))
        estimates = (checked.precision, checked.share, checked.missed)
        for k, (estimate, fact) in enumerate(zip(estimates, facts(answers, truth), strict=False)):
            held[k] += estimate.low - 1e-9 <= fact <= estimate.high + 1e-9
        widths.append(checked.share.high - checked.share.low)
    assert (held / 120 > 0.84).all(), held  # nine in ten, less two standard errors of 120 checks
    assert np.mean(widths) < 0.2  # a plain sample of 25 has 0.29


def test_a_person_who_never_names_a_class_gets_wider_intervals_that_hold_the_truth():
    held, wider = 0, 0
    for seed in range(30):
        answers, truth = a_pile(80, seed)
        rows = draw_sample(answers, 25, seed=seed)
        named = said(truth, rows)
        unnamed = {row: label if label == answers.labels[row] else WRONG for row, label in named.items()}
        low, high = check_answers(answers, unnamed).share[1:]
        held += low - 1e-9 <= np.mean(truth == "unknown") <= high + 1e-9
        own = check_answers(answers, named).share
        wider += high - low > own.high - own.low
    assert held >= 24  # nine in ten, less two standard errors
    assert wider >= 20


def test_a_method_that_is_wrong_everywhere_is_found_out():
    for offset in [-2.0, 2.0]:
        rng = np.random.default_rng(1)
        p_unknown, best = rng.uniform(0.05, 0.45, 300), np.full((300, 1), 1.0)
        truth = np.where(rng.random(300) < expit(np.log(p_unknown / (1 - p_unknown)) + offset), "unknown", "cat")
        answers = Answers(best, p_unknown, CLASSES[:1], 0.5, is_probability=True, p_unknown=p_unknown)
        before, after = (check_answers(answers, said(truth, draw_sample(answers, count))) for count in (0, 60))
        fact = np.mean(truth == "cat")
        assert abs(after.precision.value - fact) < 0.4 * abs(before.precision.value - fact)
        assert after.precision.low - 0.01 <= fact <= after.precision.high + 0.01


def test_the_answers_that_should_halve_the_interval_about_do():
    ratios = []
    for seed in range(20):
        answers, truth = a_pile(600, seed)
        first = check_answers(answers, said(truth, draw_sample(answers, 20, seed=seed)))
        second = check_answers(answers, said(truth, draw_sample(answers, 20 + first.more_to_halve, seed=seed)))
        ratios.append((second.precision.high - second.precision.low) / (first.precision.high - first.precision.low))
    assert 0.35 < np.mean(ratios) < 0.65


# ---- what may be said of an item


def test_what_may_be_said_of_an_item():
    """Everything else in the pile is right."""
    answers, _ = a_pile(50)
    cat, unknown = (int(np.flatnonzero(answers.labels == name)[0]) for name in ("cat", "unknown"))

    def outcome(label, row):
        return check_answers(answers, {k: answers.labels[k] for k in range(len(answers))} | {row: label})

    of_no_class = [outcome(label, cat) for label in ("unknown", "Unknown", -1, handful.NONE_OF_THESE, "a mango")]
    assert all(checked == of_no_class[0] for checked in of_no_class)
    each = 1 / of_no_class[0].labels
    assert of_no_class[0].missed.value == pytest.approx(each)
    wrong = outcome(WRONG, cat)  # it may be unknown
    assert wrong.precision.value == pytest.approx(1 - each)
    assert 0 < wrong.missed.value < each
    assert outcome("dog", unknown) == outcome(WRONG, unknown)
    assert outcome("dog", unknown).share.value == pytest.approx(np.mean(answers.labels == "unknown") - 1 / 50)

    numbered = Answers(np.full((30, 2), [0.9, 0.1]), np.full(30, 0.1), np.array([3, 7]), 0.5, is_probability=True)
    by_number, by_text = (check_answers(numbered, dict.fromkeys(range(30), name)) for name in (3, "3"))
    assert by_number == by_text
    assert by_number.by_class == {3: (1.0, 1.0, 1.0)}


def test_items_that_do_not_exist_and_batches_are_refused():
    answers = a_pile()[0]
    batch = Answers(np.full((2, 4, 1), 0.9), np.full((2, 4), 0.1), np.array([["a"], ["b"]]), 0.5, is_probability=True)
    for call, message in [
        (lambda: check_answers(answers, {200: "cat"}), "no item 200"),
        (lambda: draw_sample(batch, 2), "one task"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# ---- edges


def edges():
    for answers in (
        (np.ones((1, 1)), np.zeros(1), CLASSES[:1], 0.5),  # one item
        (np.ones((20, 1)), np.ones(20), CLASSES[:1], 0.5),  # no labels
        (np.ones((20, 1)), np.zeros(20), CLASSES[:1], 0.5),  # all are certain
        (np.ones((20, 2)), np.arange(20.0), CLASSES[:2], 9.5),
        (np.ones((20, 2)), np.zeros(20), CLASSES[:2], 0.0),  # all ranks are alike
    ):
        yield Answers(*answers, is_probability=answers[-1] == 0.5)
    given = np.ones(5, bool)
    yield Answers(np.ones((5, 1)), np.zeros(5), CLASSES[:1], 0.5, labelled=given, is_probability=True)


def test_every_number_is_sensible_at_the_edges():
    for count, label, answers in product([0, 1, 20], ["cat", "unknown", WRONG], edges()):
        rows = draw_sample(answers, count)
        checked = check_answers(answers, dict.fromkeys(rows.tolist(), label))
        for estimate in (checked.precision, checked.share, checked.missed, *checked.by_class.values()):
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert 0 <= checked.more_to_halve <= checked.items - checked.answers
        assert json.loads(json.dumps(checked.as_json()))["answers"] == len(rows)
        assert all(sentence.endswith(".") for sentence in checked.sentences)


def test_scores_that_only_rank_learn_from_answers_alone():
    answers, _ = a_pile(300, is_probability=False)
    rows = draw_sample(answers, 40)
    right = check_answers(answers, {int(row): answers.labels[row] for row in rows})
    wrong = check_answers(answers, {int(row): WRONG for row in rows})
    assert right.precision.value > 0.85
    assert wrong.precision.value < 0.2


def test_bins_of_a_large_pile_count_as_its_items_would_one_by_one():
    answers, _ = a_pile(3000)
    beliefs = Beliefs.of(answers)
    drawn = possible_piles(beliefs, np.full(3000, Outcome.NOT_ASKED), draws=400)
    rng = np.random.default_rng(0)
    slopes, effects = rng.normal(size=(2, 400)), rng.normal(size=(400, 4))
    prior = UNKNOWN_PRIOR
    common = np.clip(rng.standard_t(prior.shift_df, 400) * prior.shift_scale, -8, 8)
    slope = prior.slope * np.exp(prior.slope_sd * slopes[0])
    logits = slope[:, None] * beliefs.unknown_odds + common[:, None] + prior.label_sd * effects[:, beliefs.group]
    expected = expit(logits).sum(axis=1)
    assert drawn.unknown.sum(axis=1).mean() == pytest.approx(expected.mean(), rel=0.1)
