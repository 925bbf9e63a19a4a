# Written by scripts/stubs.py from the signatures of the methods
from typing import Any

from handful.estimators.classifier import FewShotClassifier

class BDCSPN(FewShotClassifier):
    """BD-CSPN.

    Class means rectified once by pseudo-labelled, shifted queries.

    It is transductive and made for the closed-set setting. New items are scored by the rectified prototypes. Liu, Song, Qin: Prototype Rectification for Few-Shot Learning (ECCV 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    temperature : float, default 1.0
        The temperature tau: cosines are multiplied by it before the softmax.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        temperature: float = 1.0,
    ) -> None: ...

class Conformal(FewShotClassifier):
    """Conformal novelty.

    One minus a p-value: how many held-out items of base classes are as far from the nearest class mean. A false-discovery rate decides what is unknown.

    It is inductive and made for the open-set setting. New items are scored by the class means and the stored calibration scores. Bates, Candes, Lei, Romano, Sesia: Testing for Outliers with Conformal p-values (Annals of Statistics 2023), 2023.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given. Its classes should be as new to
        the backbone as those of the task.
    fdr : float, default 0.1
        The false-discovery rate: of the items that are called unknown, the part that may belong to a class.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        fdr: float = 0.1,
        temperature: float = 10.0,
    ) -> None: ...

class COPOD(FewShotClassifier):
    """COPOD.

    Outlier score: how far out in the tails of the features' distributions, summed. Classes as SimpleShot.

    It is transductive and made for the detector setting. New items are scored by the distribution of the examples and the pile. Li, Zhao, Botta, Ionescu, Hu: COPOD: Copula-Based Outlier Detection (ICDM 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
    ) -> None: ...

class EOL(FewShotClassifier):
    """EOL: Enhanced Outlier Logits.

    Moves prototypes, scales and shifts by gradient descent so that the pile is decided clearly and its unknown part has the wanted share.

    It is transductive and made for the open-set setting. New items are scored by the learned prototypes, scales and shifts. Ochal, Patacchiola, Boudiaf, Wang: EOL: Transductive Few-Shot Open-Set Recognition by Enhancing Outlier Logits (arXiv 2408.02052), 2024.

    Parameters
    ----------
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task. It determines the b of the equations. "auto"
        estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    b : float or array [B], optional
        The balance b of the paper, in place of the share.
    marginal_weight : {"ways", "shots"}, default "ways"
        Weight of the mean class prediction: "ways" is N / (1 - b), as in the paper; "shots" has the examples of a class
        in place of N, as in the published code.
    learn : tuple of str, default ("prototypes", "eta", "delta")
        Which parameters move: prototypes c, scales eta, shifts delta.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.01
        Step size of Adam.
    lambda_ce : float, default 1.0
        Weight lambda_ce of the cross-entropy of the examples.
    lambda_co : float, default 1.0
        Weight lambda_co of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight lambda_ma of the spread over the outputs.
    history : bool, default False
        Whether to keep the loss of every step.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        b: Any = None,
        marginal_weight: str = "ways",
        learn: tuple[str, ...] = ("prototypes", "eta", "delta"),
        temperature: float = 10.0,
        steps: int = 50,
        learning_rate: float = 0.01,
        lambda_ce: float = 1.0,
        lambda_co: float = 1.0,
        lambda_ma: float = 1.0,
        history: bool = False,
        backend: str = "auto",
    ) -> None: ...

class EOLKDO(FewShotClassifier):
    """EOL + KDO.

    EOL and KDO, which seldom fail together, and a verdict on what else an item shows in its pile.

    It is transductive and made for the open-set setting. New items are scored by the learned prototypes, the densities where they ended, and what they show among the stored items. 

    Parameters
    ----------
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task. "auto" averages over the shares that may be true.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    neighbours : int, default 10
        Number of neighbours that each item is smoothed over.
    passes : int, default 11
        Number of passes of KDO over the pile where the share is given.
    temperature : float, default 10.0
        The temperature tau of EOL.
    steps : int, default 50
        Number of steps of Adam in EOL.
    learning_rate : float, default 0.01
        Step size of Adam in EOL.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        neighbours: int = 10,
        passes: int = 11,
        temperature: float = 10.0,
        steps: int = 50,
        learning_rate: float = 0.01,
        backend: str = "auto",
    ) -> None: ...

class FEAT(FewShotClassifier):
    """FEAT.

    Prototypes adapted to each other by self-attention that was learned on base classes; the largest class probability.

    It is inductive and made for the closed-set setting. New items are scored by the adapted prototypes. Ye, Hu, Zhan, Sha: Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions (CVPR 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    temperature : float, optional
        The temperature T, in place of the learned one.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        temperature: Any = None,
    ) -> None: ...

class Finetune(FewShotClassifier):
    """Finetune (Baseline++).

    A cosine classifier trained on the support alone.

    It is inductive and made for the closed-set setting. New items are scored by the trained prototypes. Chen, Liu, Kira, Wang, Huang: A Closer Look at Few-shot Classification (ICLR 2019), 2019.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    temperature : float, default 1.0 (1 shot) or 10.0 (5 shots)
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 200 (1 shot) or 100 (5 shots)
        Number of steps of Adam.
    learning_rate : float, default 0.0001
        Step size of Adam.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        temperature: Any = None,
        steps: Any = None,
        learning_rate: float = 0.0001,
        backend: str = "auto",
    ) -> None: ...

class FLOWR(FewShotClassifier):
    """FLOWR.

    Gaussian classes whose means have a prior that was learned on base classes, and a prior probability that an item opens a new class.

    It is inductive and made for the open-set setting. New items are scored by the classes' distributions after the last arrival. Willes, Harrison, Harakeh, Finn, Pavone, Waslander: Bayesian Embeddings for Few-Shot Open World Recognition (TPAMI 2022), 2022.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    alpha : float, optional
        How strongly new classes are expected, as a number of items, in place of the learned alpha.
    arrivals : bool, default False
        Whether items arrive one after another and join classes, also new ones. If not, each item is scored alone.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        alpha: Any = None,
        arrivals: bool = False,
    ) -> None: ...

class FROB(FewShotClassifier):
    """FROB.

    Learned boundary samples around each class, and a rejection that is trained against them and against examples of no class.

    It is inductive and made for the open-set setting. New items are scored by the trained prototypes and the rejection. Dionelis, Yaghoobi, Tsaftaris: FROB: Few-shot ROBust Model for Classification and Out-of-Distribution Detection (arXiv 2111.15487), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 10
        Number of gradient steps. The head is learned for 10 steps.
    lambda_boundary : float, optional
        Weight lambda_b of the boundary samples, in place of the learned one.
    lambda_exposure : float, default 1.0
        Weight lambda_e of the examples of no class.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        steps: int = 10,
        lambda_boundary: Any = None,
        lambda_exposure: float = 1.0,
    ) -> None: ...

class GDA(FewShotClassifier):
    """Gaussian discriminant analysis.

    Classes are Gaussians with one shrunk covariance. Outlier score: the smallest Mahalanobis distance.

    It is inductive and made for the open-set setting. New items are scored by the stored examples. Lee, Lee, Lee, Shin: A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks (NeurIPS 2018), 2018.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    shrinkage : float, optional
        How far the covariance is drawn towards a multiple of the identity, from 0 to 1. By default it is computed
        from the examples. Values below 0.001 count as 0.001.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        shrinkage: Any = None,
    ) -> None: ...

class GDACLIP(FewShotClassifier):
    """GDA-CLIP (without texts).

    Classes are Gaussians with one ridge covariance. Outlier score: the smallest Mahalanobis distance.

    It is inductive and made for the open-set setting. New items are scored by the stored examples. Wang, Liang, Sheng, He, Wang, Tan: A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation (ICLR 2024), 2024.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
    ) -> None: ...

class IForest(FewShotClassifier):
    """Isolation forest.

    Outlier score: how few random cuts isolate an item. Classes as SimpleShot.

    It is inductive and made for the detector setting. New items are scored by the forest of the examples. Liu, Ting, Zhou: Isolation Forest (ICDM 2008), 2008.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    trees : int, default 100
        Number of trees.
    max_features : float, default 0.5 (1 shot) or 0.75 (5 shots)
        The share of the features that each tree sees.
    random_state : int, default 0
        Seed of the forest.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        trees: int = 100,
        max_features: Any = None,
        random_state: int = 0,
    ) -> None: ...

class KDO(FewShotClassifier):
    """KDO: kernel density for the outliers.

    Prototypes and kernel densities for the known classes, a density of its own for the outliers, and a bias that holds their share.

    It is transductive and made for the open-set setting. New items are scored by the densities where they ended. 

    Parameters
    ----------
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task: the last entry of the target. "auto" averages over
        the shares that may be true, by what the examples and the pile show.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    neighbours : int, default 10
        Number of neighbours that each item is smoothed over.
    passes : int, default 11
        Number of passes over the pile where the share is given.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        neighbours: int = 10,
        passes: int = 11,
        backend: str = "auto",
    ) -> None: ...

class KNN(FewShotClassifier):
    """kNN distance.

    Outlier score: mean distance to the nearest support items. Classes as SimpleShot.

    It is inductive and made for the detector setting. New items are scored by the stored examples. Ramaswamy, Rastogi, Shim: Efficient Algorithms for Mining Outliers from Large Data Sets (SIGMOD 2000), 2000.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    k : int, default 1 (1 shot) or 3 (5 shots)
        Number of nearest examples.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        k: Any = None,
    ) -> None: ...

class LaplacianShot(FewShotClassifier):
    """LaplacianShot.

    Distances to rectified prototypes, smoothed over each query's nearest neighbours in the pile.

    It is transductive and made for the closed-set setting. New items are scored with the votes of their nearest items of the pile. Ziko, Dolz, Granger, Ben Ayed: Laplacian Regularized Few-Shot Learning (ICML 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    neighbours : int, default 2
        Number k of neighbours in the pile that vote for each item.
    strength : float, default 0.7 (1 shot) or 0.1 (5 shots)
        Weight lambda of the neighbours' votes.
    rounds : int, default 20
        Number of rounds, at most.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        neighbours: int = 2,
        strength: Any = None,
        rounds: int = 20,
    ) -> None: ...

class MetaBCE(FewShotClassifier):
    """Meta-BCE.

    A one-class classifier for each class, in a representation learned on base classes; unknown is what all of them reject.

    It is inductive and made for the open-set setting. New items are scored by the classes' one-class classifiers. Kozerawski, Turk: One-Class Meta-Learning: Towards Generalizable Few-Shot Open-Set Classification (2021), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
    ) -> None: ...

class OCSVM(FewShotClassifier):
    """One-class SVM.

    Outlier score: signed distance to the surface that holds the examples. Classes as SimpleShot.

    It is inductive and made for the detector setting. New items are scored by the surface around the examples. Schölkopf, Platt, Shawe-Taylor, Smola, Williamson: Estimating the Support of a High-Dimensional Distribution (Neural Computation 2001), 2001.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    kernel : {"linear", "poly", "rbf", "sigmoid"}, default "linear" (1 shot) or "poly" (5 shots)
        The kernel k, as in scikit-learn.
    tolerance : float, default 0.001
        Tolerance of the solver. With the default, that of the published figures, a polynomial kernel on many features
        is not trained, because its values are too small. 1e-12 trains it.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        kernel: Any = None,
        tolerance: float = 0.001,
    ) -> None: ...

class OODMAML(FewShotClassifier):
    """OOD-MAML.

    A detector for each class, adapted by a few gradient steps from a start that was learned on base classes, with learned fake outliers.

    It is inductive and made for the open-set setting. New items are scored by the adapted detectors. Jeong, Kim: OOD-MAML: Meta-Learning for Few-Shot Out-of-Distribution Detection and Classification (NeurIPS 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 5
        Number of gradient steps that adapt a detector. The base is learned with the default.
    adversarial_steps : int, default 3
        Number of steps that move the fake outliers towards a class; 0 leaves the moved fakes out.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        steps: int = 5,
        adversarial_steps: int = 3,
    ) -> None: ...

class OpenMax(FewShotClassifier):
    """OpenMax.

    Revises the activations of the top classes by Weibull models of how far their own examples lie.

    It is inductive and made for the open-set setting. New items are scored by the class means and their Weibull models. Bendale, Boult: Towards Open Set Deep Networks (CVPR 2016), 2016.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    weibull : bool, default True
        Whether Weibull models are fitted. False gives the rule of the published code: a softmax of the negative
        distances and 0.
    alpha : int, default 3
        Number alpha of top classes whose activations are revised.
    tail : int, default 20
        How many of the largest distances a fit uses, at most.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        weibull: bool = True,
        alpha: int = 3,
        tail: int = 20,
    ) -> None: ...

class OSLO(FewShotClassifier):
    """OSLO.

    Inlierness, soft assignments and prototypes in turn, so that likely outliers hardly move the prototypes.

    It is transductive and made for the open-set setting. New items are scored through the same rounds, past the prototypes of each, moving none. Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: Open-Set Likelihood Maximization for Few-Shot Learning (CVPR 2023), 2023.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    rounds : int, default 2
        Number of rounds.
    lambda_xi : float, default 0.05
        Softness lambda_xi of the inlierness.
    lambda_z : float, default 0.1
        Softness lambda_z of the assignments.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        rounds: int = 2,
        lambda_xi: float = 0.05,
        lambda_z: float = 0.1,
    ) -> None: ...

class OSTIM(FewShotClassifier):
    """OSTIM.

    Information maximisation over N + 1 outputs, the outlier logit being minus the mean of the class logits.

    It is transductive and made for the open-set setting. New items are scored by the learned prototypes. Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida, Ben Ayed: Model-Agnostic Few-Shot Open-Set Recognition (arXiv 2206.09236), 2022.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 200 (1 shot) or 50 (5 shots)
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    lambda_co : float, default 0.1
        Weight of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight of the spread over the outputs.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        temperature: float = 10.0,
        steps: Any = None,
        learning_rate: float = 0.001,
        lambda_co: float = 0.1,
        lambda_ma: float = 1.0,
        backend: str = "auto",
    ) -> None: ...

class PCA(FewShotClassifier):
    """Principal components.

    Outlier score: distance to the leading directions of the examples. Classes as SimpleShot.

    It is inductive and made for the detector setting. New items are scored by the directions of the examples. Shyu, Chen, Sarinnapakorn, Chang: A Novel Anomaly Detection Scheme Based on Principal Component Classifier (ICDM workshops 2003), 2003.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    components : int, default 2 (1 shot) or 1 (5 shots)
        Number of directions.
    random_state : int, default 0
        Seed of the decomposition, which is random for large features.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        components: Any = None,
        random_state: int = 0,
    ) -> None: ...

class PEELER(FewShotClassifier):
    """PEELER (Gaussian head).

    A Gaussian for each class, its spread predicted by a head that was taught on base classes to leave unknowns undecided.

    It is inductive and made for the open-set setting. New items are scored by the classes' Gaussians. Liu, Kang, Li, Hua, Vasconcelos: Few-Shot Open-Set Recognition Using Meta-Learning (CVPR 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
    ) -> None: ...

class POODLE(FewShotClassifier):
    """POODLE.

    Prototypes moved by gradient descent towards the support and away from items of base classes.

    It is inductive and made for the closed-set setting. New items are scored by the learned prototypes and scale. Le, Nguyen, Nguyen, Tran, Nguyen, Hua: POODLE: Improving Few-shot Learning via Penalizing Out-of-Distribution Samples (NeurIPS 2021), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 100
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    alpha : float, default 1.0
        Weight alpha of the pull towards the examples.
    beta : float, default 0.5
        Weight beta of the push away from the negatives.
    scale : float, default 10.0
        Start value of the scale s.
    negatives : int, default 400
        How many items of the base are used, at most.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        steps: int = 100,
        learning_rate: float = 0.001,
        alpha: float = 1.0,
        beta: float = 0.5,
        scale: float = 10.0,
        negatives: int = 400,
    ) -> None: ...

class PROSER(FewShotClassifier):
    """PROSER.

    A linear head with a dummy class that is trained to come second everywhere.

    It is inductive and made for the open-set setting. New items are scored by the trained head. Zhou, Ye, Zhan: Learning Placeholders for Open-Set Recognition (CVPR 2021), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    lambda_dummy : float, default 0.1
        Weight lambda of the dummy's term in the loss.
    random_state : int, default 0
        Seed of the head's random start, which is the same for every task.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        steps: int = 50,
        learning_rate: float = 0.001,
        lambda_dummy: float = 0.1,
        random_state: int = 0,
    ) -> None: ...

class PTMAP(FewShotClassifier):
    """PT-MAP.

    Optimal transport of the queries to prototypes, with classes of equal size, repeated as prototypes move.

    It is transductive and made for the closed-set setting. New items are scored by the column scaling that the pile's transport ended with. Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-Based Few-Shot Learning (ICANN 2021), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    rounds : int, default 10
        Number of rounds.
    rate : float, default 0.2
        Factor alpha: how far prototypes move towards their new means in a round.
    sharpness : float, default 10.0
        Factor kappa of the squared distances.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        rounds: int = 10,
        rate: float = 0.2,
        sharpness: float = 10.0,
    ) -> None: ...

class RelativeMahalanobis(FewShotClassifier):
    """Relative Mahalanobis distance.

    Outlier score: the Mahalanobis distance to the nearest class minus that to one Gaussian of all examples.

    It is inductive and made for the open-set setting. New items are scored by the stored examples. Ren, Fort, Liu, Roy, Padhy, Lakshminarayanan: A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection (arXiv 2106.09022), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    shrinkage : float, optional
        How far both covariances are drawn towards a multiple of the identity, from 0 to 1. By default it is computed
        from the examples. Values below 0.001 count as 0.001.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        shrinkage: Any = None,
    ) -> None: ...

class RPL(FewShotClassifier):
    """RPL (reciprocal points).

    Learns for each class a point that stands for all it is not; the unknown stay near these points.

    It is inductive and made for the open-set setting. New items are scored by the learned reciprocal points. Chen, Qiao, Shi, Peng, Li, Huang, Pu, Tian: Learning Open Set Network with Discriminative Reciprocal Points (ECCV 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    steps : int, default 100
        Number of steps of Adam.
    learning_rate : float, default 0.01
        Step size of Adam.
    gamma : float, default 1.0
        Sharpness gamma of the class probabilities.
    lambda_open : float, default 0.1
        Weight lambda of the term that bounds the open space.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        steps: int = 100,
        learning_rate: float = 0.01,
        gamma: float = 1.0,
        lambda_open: float = 0.1,
    ) -> None: ...

class SimpleShot(FewShotClassifier):
    """SimpleShot.

    The nearest class mean by cosine. Outlier score: minus the largest class probability.

    It is inductive and made for the closed-set setting. New items are scored by the class means. Wang, Chao, Weinberger, van der Maaten: SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning (arXiv 1911.04623), 2019.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    temperature : float, default 1.0
        The temperature tau: cosines are multiplied by it before the softmax.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        temperature: float = 1.0,
    ) -> None: ...

class SnaTCHerF(FewShotClassifier):
    """SnaTCHer-F.

    FEAT's classes; an item is unknown if the adapted prototypes move far when it takes the place of its class's.

    It is inductive and made for the open-set setting. New items are scored by the prototypes and how far each item moves them. Jeong, Choi, Kim: Few-shot Open-set Recognition by Transformation Consistency (CVPR 2021), 2021.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    base : handful.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    temperature : float, optional
        The temperature T of FEAT, in place of the learned one.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        base: Any = None,
        temperature: Any = None,
    ) -> None: ...

class SoftKMeans(FewShotClassifier):
    """Masked soft k-means.

    Soft k-means from the class means with a distractor cluster in the middle, queries far from a class masked.

    It is transductive and made for the open-set setting. New items are scored by the final prototypes and the distractor cluster. Ren, Triantafillou, Ravi, Snell, Swersky, Tenenbaum, Larochelle, Zemel: Meta-Learning for Semi-Supervised Few-Shot Classification (ICLR 2018), 2018.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    rounds : int, default 3
        Number of rounds.
    temperature : float, default 5.0
        The temperature tau: squared distances are multiplied by it.
    radius : float, default 1.0
        Length scale r of the distractor cluster.
    beta : float, default 0.7
        Relative distance beta at which the mask is one half.
    gamma : float, default 10.0
        Slope gamma of the mask.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        rounds: int = 3,
        temperature: float = 5.0,
        radius: float = 1.0,
        beta: float = 0.7,
        gamma: float = 10.0,
    ) -> None: ...

class TIMGD(FewShotClassifier):
    """TIM-GD.

    Gradient descent on the support's cross-entropy and the mutual information of queries and classes.

    It is transductive and made for the closed-set setting. New items are scored by the learned prototypes. Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed: Transductive Information Maximization for Few-Shot Learning (NeurIPS 2020), 2020.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    steps : int, default 50
        Number of steps of Adam.
    learning_rate : float, default 0.0001
        Step size of Adam.
    lambda_co : float, default 0.1
        Weight of the entropy of each decision.
    lambda_ma : float, default 1.0
        Weight of the spread over the outputs.
    backend : {"auto", "array", "fast"}, default "auto"
        How to compute: "array" is NumPy or torch, "fast" is the fused kernel, "auto" chooses one of them.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        temperature: float = 10.0,
        steps: int = 50,
        learning_rate: float = 0.0001,
        lambda_co: float = 0.1,
        lambda_ma: float = 1.0,
        backend: str = "auto",
    ) -> None: ...

class TransCLIP(FewShotClassifier):
    """TransCLIP (without texts).

    A Gaussian mixture of examples and pile, with votes of neighbours. Outlier score: a low density.

    It is transductive and made for the closed-set setting. New items are scored by the final Gaussians, with the votes of their nearest items of the pile. Zanella, Gerin, Ben Ayed: Boosting Vision-Language Models with Transduction (NeurIPS 2024), 2024.

    Parameters
    ----------
    outlier_share : float or "auto", default "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the examples and the pile.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    dtype : {"float32", "float64"}
        What to compute in.
    rounds : int, default 10
        Number of rounds.
    gamma : float, default 2.0
        Weight gamma of all examples together, where that of the whole pile is 1.
    shrinkage : float, default 1.0
        How far the variances of the features are drawn towards their mean, s, from 0 to 1. Values below 0.001 count
        as 0.001.
    temperature : float, default 5.0
        The temperature tau: log densities, as a mean over the features, are multiplied by it.
    neighbours : int, default 3
        Number k of neighbours in the pile that vote for each item.
    strength : float, default 3.0
        Weight lambda of the neighbours' votes.

    Attributes
    ----------
    classes_ : array [N]
        The names of the classes, sorted.
    transduction_ : array [n]
        The label of each item that the model was fitted to: -1 or "unknown" where unknown; given labels are kept.
    label_distributions_ : array [n, N]
        P(class | known) of each item.
    outlier_scores_ : array [n]
        High means more likely unknown. Labelled items are scored as new ones would be.
    unknown_ : array [n] of bool
        Whether each item is called unknown.
    groups_ : list of Group
        The unknown items as groups that look alike, the largest first; computed when it is asked for.
    outlier_share_ : float
        The share of unknowns that the method worked with.
    outlier_share_interval_ : tuple of two floats, or None
        Where the share was estimated: it should lie in this interval four times in five.
    threshold_ : float
        The doubt (`Answers.doubts`) above which an item is unknown.
    n_iter_, n_features_in_ : int
        Steps that were made; features of an item.
    """

    def __init__(
        self,
        *,
        outlier_share: Any = "auto",
        preparation: Any = None,
        base_mean: Any = None,
        threshold: Any = None,
        dtype: str = "float32",
        rounds: int = 10,
        gamma: float = 2.0,
        shrinkage: float = 1.0,
        temperature: float = 5.0,
        neighbours: int = 3,
        strength: float = 3.0,
    ) -> None: ...
