# Written by scripts/stubs.py: change handful/__init__.py

from handful import backbones as backbones
from handful import bench as bench
from handful import cluster as cluster
from handful import core as core
from handful.training import datasets as datasets
from handful import engines as engines
from handful import estimators as estimators
from handful import features as features
from handful import methods as methods
from handful.core import metrics as metrics
from handful import project as project
from handful import report as report
from handful import solving as solving
from handful import streaming as streaming
from handful import training as training
from handful import workbench as workbench
from handful.core.base import Base as Base
from handful.core.checks import NONE_OF_THESE as NONE_OF_THESE
from handful.core.checks import UNKNOWN as UNKNOWN
from handful.core.checks import UNKNOWN_NAME as UNKNOWN_NAME
from handful.core.task import Task as Task
from handful.methods import Info as Info
from handful.methods import Solution as Solution
from handful.methods import register as register
from handful.solving.check import Checked as Checked
from handful.solving.check import WRONG as WRONG
from handful.solving import Result as Result
from handful.solving import describe as describe
from handful.solving import list_methods as list_methods
from handful.solving import solve as solve
from handful.solving import solve_each as solve_each
from handful.solving import solve_task as solve_task
from handful.streaming import Pile as Pile
from handful.streaming import Streaming as Streaming
from handful.project import Project as Project
from handful.estimators import load as load
from handful.estimators import make_estimator as make_estimator
from handful.estimators import scorer as scorer
from handful.estimators.classes import BDCSPN as BDCSPN
from handful.estimators.classes import COPOD as COPOD
from handful.estimators.classes import Conformal as Conformal
from handful.estimators.classes import EOL as EOL
from handful.estimators.classes import EOLKDO as EOLKDO
from handful.estimators.classes import FEAT as FEAT
from handful.estimators.classes import FLOWR as FLOWR
from handful.estimators.classes import FROB as FROB
from handful.estimators.classes import Finetune as Finetune
from handful.estimators.classes import GDA as GDA
from handful.estimators.classes import GDACLIP as GDACLIP
from handful.estimators.classes import IForest as IForest
from handful.estimators.classes import KDO as KDO
from handful.estimators.classes import KNN as KNN
from handful.estimators.classes import LaplacianShot as LaplacianShot
from handful.estimators.classes import MetaBCE as MetaBCE
from handful.estimators.classes import OCSVM as OCSVM
from handful.estimators.classes import OODMAML as OODMAML
from handful.estimators.classes import OSLO as OSLO
from handful.estimators.classes import OSTIM as OSTIM
from handful.estimators.classes import OpenMax as OpenMax
from handful.estimators.classes import PCA as PCA
from handful.estimators.classes import PEELER as PEELER
from handful.estimators.classes import POODLE as POODLE
from handful.estimators.classes import PROSER as PROSER
from handful.estimators.classes import PTMAP as PTMAP
from handful.estimators.classes import RPL as RPL
from handful.estimators.classes import RelativeMahalanobis as RelativeMahalanobis
from handful.estimators.classes import SimpleShot as SimpleShot
from handful.estimators.classes import SnaTCHerF as SnaTCHerF
from handful.estimators.classes import SoftKMeans as SoftKMeans
from handful.estimators.classes import TIMGD as TIMGD
from handful.estimators.classes import TransCLIP as TransCLIP
from handful.utils.version import __version__ as __version__

__all__ = [
    "BDCSPN",
    "Base",
    "COPOD",
    "Checked",
    "Conformal",
    "EOL",
    "EOLKDO",
    "FEAT",
    "FLOWR",
    "FROB",
    "Finetune",
    "GDA",
    "GDACLIP",
    "IForest",
    "Info",
    "KDO",
    "KNN",
    "LaplacianShot",
    "MetaBCE",
    "NONE_OF_THESE",
    "OCSVM",
    "OODMAML",
    "OSLO",
    "OSTIM",
    "OpenMax",
    "PCA",
    "PEELER",
    "POODLE",
    "PROSER",
    "PTMAP",
    "Pile",
    "Project",
    "RPL",
    "RelativeMahalanobis",
    "Result",
    "SimpleShot",
    "SnaTCHerF",
    "SoftKMeans",
    "Solution",
    "Streaming",
    "TIMGD",
    "Task",
    "TransCLIP",
    "UNKNOWN",
    "UNKNOWN_NAME",
    "WRONG",
    "__version__",
    "backbones",
    "bench",
    "cluster",
    "core",
    "datasets",
    "describe",
    "engines",
    "estimators",
    "features",
    "list_methods",
    "load",
    "make_estimator",
    "methods",
    "metrics",
    "project",
    "register",
    "report",
    "scorer",
    "solve",
    "solve_each",
    "solve_task",
    "solving",
    "streaming",
    "training",
    "workbench",
]
