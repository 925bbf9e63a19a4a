"""`help()` of an estimator explains every parameter, with the default that it really has."""

import inspect

import handful
from handful.estimators.factory import estimator_class, parameter_texts
from handful.methods.registry import find_method


def written(default) -> str:
    return repr(default).replace("'", '"')


def test_every_parameter_of_every_estimator_is_explained():
    for name in [*handful.list_methods(), "simpleshot+knn", "eol+openmax"]:
        estimator = estimator_class(name)
        texts = parameter_texts(inspect.getdoc(estimator))
        parameters = [p for p in inspect.signature(estimator).parameters if p != "self"]
        assert sorted(texts) == sorted(parameters)
        for parameter, text in texts.items():
            kind, _, meaning = text.partition("\n")
            assert kind.strip(), parameter
            assert meaning.strip().endswith("."), parameter


def test_the_docstring_of_a_method_names_its_parameters_in_order_with_their_defaults():
    for name in handful.list_methods():
        method = find_method(name)
        texts = parameter_texts(inspect.getdoc(method.solve))
        examples_of_no_class = ["unknown"] if method.takes_unknown else []
        assert list(texts) == [*examples_of_no_class, *method.defaults]
        for parameter, default in method.defaults.items():
            kind = texts[parameter].splitlines()[0]
            if by_shots := method.info.by_shots.get(parameter):
                one, five = map(written, (by_shots["1"], by_shots["5"]))
                assert kind.endswith(f", default {one} (1 shot) or {five} (5 shots)")
            elif default is None:
                assert kind.endswith(", optional")
            else:
                assert kind.endswith(f", default {written(default)}")
