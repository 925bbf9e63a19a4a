"""A pipeline of scikit-learn: search for parameters, save, load.

handful's classifiers are scikit-learn estimators, so they work in `Pipeline` and `GridSearchCV`. Items of the pile have
the label -1. The script needs `pip install handful`, and takes some seconds.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

import handful

# 600 drawings of digits, of which ten of each digit from 0 to 5 have a label. The others come later, as new items.
features, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digits))
features, digits = features[order], digits[order]
labels = np.full(600, -1)
for digit in range(6):
    labels[np.flatnonzero(digits[:600] == digit)[:10]] = digit

# The score is the accuracy over the items with a label in the left-out fold; calling one of them unknown is an error.
# It says nothing about unknown items, so search with it for how to prepare the features, not for a threshold.
pipeline = Pipeline([("pca", PCA(random_state=0)), ("classifier", handful.EOLKDO())])
grid = {"pca__n_components": [4, 8, 16, 32], "classifier__neighbours": [5, 10]}
folds = StratifiedKFold(3, shuffle=True, random_state=0)
search = GridSearchCV(pipeline, grid, cv=folds).fit(features[:600], labels)
print("best parameters:", search.best_params_)
print(f"accuracy in cross-validation: {search.best_score_:.2f}")

# The interval should contain the true share four times in five. So it can also miss it.
best = search.best_estimator_
is_pile = labels == -1
low, high = best[-1].outlier_share_interval_
share, true_share = best[-1].outlier_share_, (digits[:600] > 5)[is_pile].mean()
print(f"share of unknowns in the pile: {share:.2f} (between {low:.2f} and {high:.2f}), true: {true_share:.2f}")

# New items, one by one: -1 means unknown.
new, truth = features[600:], np.where(digits[600:] < 6, digits[600:], -1)
predicted = best.predict(new)
precision = (predicted == truth)[predicted != -1].mean()
print(f"precision of the labels of {len(new)} new items: {precision:.2f}")

with TemporaryDirectory() as folder:
    # joblib keeps the whole pipeline. Such a file can run code when it is opened: open only files that you trust.
    joblib.dump(best, Path(folder, "pipeline.joblib"))
    restored = joblib.load(Path(folder, "pipeline.joblib"))
    print("same labels from joblib:", np.array_equal(restored.predict(new), predicted))

    # save() keeps the classifier alone, as numbers in a safetensors file. Opening it runs nothing.
    best[-1].save(Path(folder, "classifier.safetensors"))
    classifier = handful.load(Path(folder, "classifier.safetensors"))
    print("same labels from safetensors:", np.array_equal(classifier.predict(best[:-1].transform(new)), predicted))
