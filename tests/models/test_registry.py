import pytest
from refusals import refused

from ap_ranker.models.registry import build_model, complete_options, model_spec
from ap_ranker.models.spec import Inputs


def test_unknown_model_names_those_like_it() -> None:
    with refused("'ap-cn' … ap-cnn … qa-cnn … 'ap-cnn'"):
        model_spec("ap-cn")


def test_the_papers_sizes_are_the_defaults() -> None:
    assert complete_options("ap-cnn", {})["filters"] == 400
    assert complete_options("qa-cnn", {})["filters"] == 4000
    assert complete_options("ap-bilstm", {"hidden": 7}) == {**complete_options("ap-bilstm", {}), "hidden": 7}


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"filter": 3}, "'filter' … filters"),
        ({"filters": "many"}, "filters … int … many"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], facts: str) -> None:
    with refused(facts):
        build_model("ap-cnn", Inputs(["[PAD]", "[UNK]"], 5, 9), options)
