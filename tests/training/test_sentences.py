from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.training.augment import with_answer_sentences
from ap_ranker.training.config import FEW_PAIRS, TrainingConfig


def test_sentences_of_right_answers_become_questions() -> None:
    answers = [
        Answer("a", "How do I?\nOpen it. Then wait 1.5 hours!  Done"),
        Answer("b", "Only one sentence."),
        Answer("c", "Nobody. Asked."),
        Answer("d", "打开它。等一等。"),
    ]
    data = Dataset("d", answers, [Question("1", "how do i?", (0, 1)), Question("2", "q", (3,))])
    added = with_answer_sentences(data).questions[2:]
    assert [(q.text, q.positives) for q in added] == [
        ("Open it.", (0,)),
        ("Then wait 1.5 hours!", (0,)),
        ("Done", (0,)),
        ("打开它。", (3,)),
        ("等一等。", (3,)),
    ]


def test_only_few_pairs_need_them() -> None:
    assert TrainingConfig("ap-cnn").learns_from_sentences(FEW_PAIRS - 1)
    assert not TrainingConfig("ap-cnn").learns_from_sentences(FEW_PAIRS)
    assert TrainingConfig("ap-cnn", answer_sentences=True).learns_from_sentences(FEW_PAIRS)
    assert not TrainingConfig("ap-cnn", answer_sentences=False).learns_from_sentences(1)
    assert not TrainingConfig(model="ap-transformer").learns_from_sentences(1)
    assert TrainingConfig(model="ap-transformer", answer_sentences=True).learns_from_sentences(1)
