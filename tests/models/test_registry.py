import pytest

from ap_ranker.errors import InputError
from ap_ranker.models.registry import build_model, complete_options, model_spec
from ap_ranker.models.spec import Inputs


def test_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"Unknown model 'ap-cn'.*ap-bilstm, ap-cnn,.*qa-bilstm, qa-cnn"):
        model_spec("ap-cn")


def test_the_papers_sizes_are_the_defaults() -> None:
    assert complete_options("ap-cnn", {})["filters"] == 400
    assert complete_options("qa-cnn", {})["filters"] == 4000
    assert complete_options("ap-bilstm", {"hidden": 7}) == {**complete_options("ap-bilstm", {}), "hidden": 7}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter": 3}, "no option 'filter': expected one of filters"),
        ({"filters": "many"}, "must be int, found 'many'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_model("ap-cnn", Inputs(["[PAD]", "[UNK]"], 5, 9), options)
