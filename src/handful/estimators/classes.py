"""The scikit-learn estimator of each method, by name: `handful.EOL`, `handful.KNN`, ..."""

from handful.estimators.factory import estimator_class

BDCSPN = estimator_class("bdcspn")
Conformal = estimator_class("conformal")
COPOD = estimator_class("copod")
EOL = estimator_class("eol")
EOLKDO = estimator_class("eol_kdo")
FEAT = estimator_class("feat")
FLOWR = estimator_class("flowr")
FROB = estimator_class("frob")
Finetune = estimator_class("finetune")
GDA = estimator_class("gda")
GDACLIP = estimator_class("gda_clip")
IForest = estimator_class("iforest")
KDO = estimator_class("kdo")
KNN = estimator_class("knn")
LaplacianShot = estimator_class("laplacianshot")
MetaBCE = estimator_class("meta_bce")
OCSVM = estimator_class("ocsvm")
OODMAML = estimator_class("ood_maml")
OpenMax = estimator_class("openmax")
OSLO = estimator_class("oslo")
OSTIM = estimator_class("ostim")
PCA = estimator_class("pca")
PEELER = estimator_class("peeler")
POODLE = estimator_class("poodle")
PROSER = estimator_class("proser")
PTMAP = estimator_class("pt_map")
RelativeMahalanobis = estimator_class("relative_mahalanobis")
RPL = estimator_class("rpl")
SimpleShot = estimator_class("simpleshot")
SnaTCHerF = estimator_class("snatcher_f")
SoftKMeans = estimator_class("soft_kmeans")
TIMGD = estimator_class("tim_gd")
TransCLIP = estimator_class("transclip")

__all__ = [
    "BDCSPN",
    "COPOD",
    "EOL",
    "EOLKDO",
    "FEAT",
    "FLOWR",
    "FROB",
    "GDA",
    "GDACLIP",
    "KDO",
    "KNN",
    "OCSVM",
    "OODMAML",
    "OSLO",
    "OSTIM",
    "PCA",
    "PEELER",
    "POODLE",
    "PROSER",
    "PTMAP",
    "RPL",
    "TIMGD",
    "Conformal",
    "Finetune",
    "IForest",
    "LaplacianShot",
    "MetaBCE",
    "OpenMax",
    "RelativeMahalanobis",
    "SimpleShot",
    "SnaTCHerF",
    "SoftKMeans",
    "TransCLIP",
]
