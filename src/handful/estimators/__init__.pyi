# Written by scripts/stubs.py from the signatures of the methods. help() of a class explains its parameters.
from typing import Any

from handful.estimators.classifier import FewShotClassifier as FewShotClassifier
from handful.estimators.factory import load as load
from handful.estimators.factory import make_estimator as make_estimator
from handful.estimators.given_labels import scorer as scorer

class BDCSPN(FewShotClassifier):
    """BD-CSPN. Class means rectified once by pseudo-labelled, shifted queries."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", temperature: float = 1.0,
    ) -> None: ...

class COPOD(FewShotClassifier):
    """COPOD. Outlier score: how far out in the tails of the features' distributions, summed. Classes as
    SimpleShot."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32",
    ) -> None: ...

class Conformal(FewShotClassifier):
    """Conformal novelty. One minus a p-value: how many held-out items of base classes are as far from the nearest
    class mean. A false-discovery rate decides what is unknown."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, fdr: float = 0.1, temperature: float = 10.0,
    ) -> None: ...

class EOL(FewShotClassifier):
    """EOL: Enhanced Outlier Logits. Moves prototypes, scales and shifts by gradient descent so that the pile is
    decided clearly and its unknown part has the wanted share."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", b: Any = None, marginal_weight: str = "ways",
        learn: tuple[str, ...] = ("prototypes", "eta", "delta"), temperature: float = 10.0, steps: int = 50,
        learning_rate: float = 0.01, lambda_ce: float = 1.0, lambda_co: float = 1.0, lambda_ma: float = 1.0,
        history: bool = False, backend: str = "auto",
    ) -> None: ...

class EOLKDO(FewShotClassifier):
    """EOL + KDO. EOL and KDO, which seldom fail together, and a verdict on what else an item shows in its pile."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", neighbours: int = 10, passes: int = 11, temperature: float = 10.0, steps: int = 50,
        learning_rate: float = 0.01, backend: str = "auto",
    ) -> None: ...

class FEAT(FewShotClassifier):
    """FEAT. Prototypes adapted to each other by self-attention that was learned on base classes; the largest class
    probability."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, temperature: Any = None,
    ) -> None: ...

class FLOWR(FewShotClassifier):
    """FLOWR. Gaussian classes whose means have a prior that was learned on base classes, and a prior probability
    that an item opens a new class."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, alpha: Any = None, arrivals: bool = False,
    ) -> None: ...

class FROB(FewShotClassifier):
    """FROB. Learned boundary samples around each class, and a rejection that is trained against them and against
    examples of no class."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, steps: int = 10, lambda_boundary: Any = None,
        lambda_exposure: float = 1.0,
    ) -> None: ...

class Finetune(FewShotClassifier):
    """Finetune (Baseline++). A cosine classifier trained on the support alone."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", temperature: Any = None, steps: Any = None, learning_rate: float = 0.0001,
        backend: str = "auto",
    ) -> None: ...

class GDA(FewShotClassifier):
    """Gaussian discriminant analysis. Classes are Gaussians with one shrunk covariance. Outlier score: the smallest
    Mahalanobis distance."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", shrinkage: Any = None,
    ) -> None: ...

class GDACLIP(FewShotClassifier):
    """GDA-CLIP (without texts). Classes are Gaussians with one ridge covariance. Outlier score: the smallest
    Mahalanobis distance."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32",
    ) -> None: ...

class IForest(FewShotClassifier):
    """Isolation forest. Outlier score: how few random cuts isolate an item. Classes as SimpleShot."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", trees: int = 100, max_features: Any = None, random_state: int = 0,
    ) -> None: ...

class KDO(FewShotClassifier):
    """KDO: kernel density for the outliers. Prototypes and kernel densities for the known classes, a density of its
    own for the outliers, and a bias that holds their share."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", neighbours: int = 10, passes: int = 11, backend: str = "auto",
    ) -> None: ...

class KNN(FewShotClassifier):
    """kNN distance. Outlier score: mean distance to the nearest support items. Classes as SimpleShot."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", k: Any = None,
    ) -> None: ...

class LaplacianShot(FewShotClassifier):
    """LaplacianShot. Distances to rectified prototypes, smoothed over each query's nearest neighbours in the
    pile."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", neighbours: int = 2, strength: Any = None, rounds: int = 20,
    ) -> None: ...

class MetaBCE(FewShotClassifier):
    """Meta-BCE. A one-class classifier for each class, in a representation learned on base classes; unknown is what
    all of them reject."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None,
    ) -> None: ...

class OCSVM(FewShotClassifier):
    """One-class SVM. Outlier score: signed distance to the surface that holds the examples. Classes as
    SimpleShot."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", kernel: Any = None, tolerance: float = 0.001,
    ) -> None: ...

class OODMAML(FewShotClassifier):
    """OOD-MAML. A detector for each class, adapted by a few gradient steps from a start that was learned on base
    classes, with learned fake outliers."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, steps: int = 5, adversarial_steps: int = 3,
    ) -> None: ...

class OSLO(FewShotClassifier):
    """OSLO. Inlierness, soft assignments and prototypes in turn, so that likely outliers hardly move the
    prototypes."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", rounds: int = 2, lambda_xi: float = 0.05, lambda_z: float = 0.1,
    ) -> None: ...

class OSTIM(FewShotClassifier):
    """OSTIM. Information maximisation over N + 1 outputs, the outlier logit being minus the mean of the class
    logits."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", temperature: float = 10.0, steps: Any = None, learning_rate: float = 0.001,
        lambda_co: float = 0.1, lambda_ma: float = 1.0, backend: str = "auto",
    ) -> None: ...

class OpenMax(FewShotClassifier):
    """OpenMax. Revises the activations of the top classes by Weibull models of how far their own examples lie."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", weibull: bool = True, alpha: int = 3, tail: int = 20,
    ) -> None: ...

class PCA(FewShotClassifier):
    """Principal components. Outlier score: distance to the leading directions of the examples. Classes as
    SimpleShot."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", components: Any = None, random_state: int = 0,
    ) -> None: ...

class PEELER(FewShotClassifier):
    """PEELER (Gaussian head). A Gaussian for each class, its spread predicted by a head that was taught on base
    classes to leave unknowns undecided."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None,
    ) -> None: ...

class POODLE(FewShotClassifier):
    """POODLE. Prototypes moved by gradient descent towards the support and away from items of base classes."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, steps: int = 100, learning_rate: float = 0.001, alpha: float = 1.0,
        beta: float = 0.5, scale: float = 10.0, negatives: int = 400,
    ) -> None: ...

class PROSER(FewShotClassifier):
    """PROSER. A linear head with a dummy class that is trained to come second everywhere."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", steps: int = 50, learning_rate: float = 0.001, lambda_dummy: float = 0.1,
        random_state: int = 0,
    ) -> None: ...

class PTMAP(FewShotClassifier):
    """PT-MAP. Optimal transport of the queries to prototypes, with classes of equal size, repeated as prototypes
    move."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", rounds: int = 10, rate: float = 0.2, sharpness: float = 10.0,
    ) -> None: ...

class RPL(FewShotClassifier):
    """RPL (reciprocal points). Learns for each class a point that stands for all it is not; the unknown stay near
    these points."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", steps: int = 100, learning_rate: float = 0.01, gamma: float = 1.0,
        lambda_open: float = 0.1,
    ) -> None: ...

class RelativeMahalanobis(FewShotClassifier):
    """Relative Mahalanobis distance. Outlier score: the Mahalanobis distance to the nearest class minus that to one
    Gaussian of all examples."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", shrinkage: Any = None,
    ) -> None: ...

class SimpleShot(FewShotClassifier):
    """SimpleShot. The nearest class mean by cosine. Outlier score: minus the largest class probability."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", temperature: float = 1.0,
    ) -> None: ...

class SnaTCHerF(FewShotClassifier):
    """SnaTCHer-F. FEAT's classes; an item is unknown if the adapted prototypes move far when it takes the place of
    its class's."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", base: Any = None, temperature: Any = None,
    ) -> None: ...

class SoftKMeans(FewShotClassifier):
    """Masked soft k-means. Soft k-means from the class means with a distractor cluster in the middle, queries far
    from a class masked."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", rounds: int = 3, temperature: float = 5.0, radius: float = 1.0, beta: float = 0.7,
        gamma: float = 10.0,
    ) -> None: ...

class TIMGD(FewShotClassifier):
    """TIM-GD. Gradient descent on the support's cross-entropy and the mutual information of queries and classes."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", temperature: float = 10.0, steps: int = 50, learning_rate: float = 0.0001,
        lambda_co: float = 0.1, lambda_ma: float = 1.0, backend: str = "auto",
    ) -> None: ...

class TransCLIP(FewShotClassifier):
    """TransCLIP (without texts). A Gaussian mixture of examples and pile, with votes of neighbours. Outlier score:
    a low density."""
    def __init__(
        self, *,
        outlier_share: Any = "auto", preparation: Any = None, base_mean: Any = None, threshold: Any = None,
        dtype: str = "float32", rounds: int = 10, gamma: float = 2.0, shrinkage: float = 1.0,
        temperature: float = 5.0, neighbours: int = 3, strength: float = 3.0,
    ) -> None: ...
