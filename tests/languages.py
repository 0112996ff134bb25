"""FAQs in German, in Chinese and in both, as users have them, and a small multilingual encoder of random weights."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from naive.ap_transformer import TINY
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]

GERMAN_TOPICS = (
    *("Paket", "Geld", "Akku", "Rad", "Größe", "Abonnement", "Rechnung", "Gutschein", "Öffnungszeit", "Lieferung"),
    *("Straße", "Adresse", "Passwort", "Konto", "Reparatur", "Garantie", "Ersatzteil", "Schlüssel", "Helm", "Bremse"),
    *("Kündigung", "Gebühr", "Rücksendung", "Bestellung", "Überweisung", "Newsletter", "Probefahrt", "Zubehör"),
    *("Versicherung", "Mängel"),
)
GERMAN_PATTERNS = ("Wo finde ich {}?", "Frage zu {}", "{} fehlt", "Was kostet {}?", "Ändern: {}", "Hilfe mit {} bitte")
CHINESE_TOPICS = (
    *("包裹", "退款", "电池", "自行车", "尺码", "订阅", "发票", "优惠券", "营业时间", "送货"),
    *("街道", "地址", "密码", "账户", "维修", "保修", "零件", "钥匙", "头盔", "刹车"),
    *("取消", "费用", "退货", "订单", "转账", "新闻", "试骑", "配件", "保险", "故障"),
)
CHINESE_PATTERNS = ("我的{}在哪里？", "关于{}的问题", "{}丢了怎么办？", "{}多少钱？", "如何更改{}？", "请帮我处理{}")


def german() -> list[tuple[str, str]]:
    """Pairs of a question and an answer: six questions of each answer."""
    return _pairs(
        GERMAN_TOPICS,
        GERMAN_PATTERNS,
        "Alles über {} ist im Kundenkonto und wird dort erklärt; für Rückfragen: Büro in Köln.",
    )


def chinese() -> list[tuple[str, str]]:
    """Pairs of a question and an answer: six questions of each answer, without spaces, with full-width marks."""
    return _pairs(CHINESE_TOPICS, CHINESE_PATTERNS, "有关{}的一切都在您的账户页面；如有疑问，请联系客服。")


def _pairs(topics: Sequence[str], patterns: Sequence[str], answer: str) -> list[tuple[str, str]]:
    return [(pattern.format(topic), answer.format(topic)) for topic in topics for pattern in patterns]


FAQS = {
    "german": (("Frage", "Antwort"), german),
    "chinese": (("问题", "答案"), chinese),
    "mixed": (("Frage", "Antwort"), lambda: [*german(), *chinese()]),
}
"""Name -> the header of its table and its pairs."""


def write_faq(path: Path, name: str, every: int = 1) -> None:
    """Some pairs of a FAQ as Excel saves it where the decimal point is a comma: "CSV UTF-8", with semicolons."""
    header, pairs = FAQS[name]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([header, *pairs()[::every]])


def _texts() -> Iterator[str]:
    for pair in (*german(), *chinese()):
        yield from pair


def write_multilingual_encoder(folder: Path) -> Path:
    """A sentence-transformers folder whose tokenizer is of XLM-R's kind: Unigram, NFKC, its padding is token 1."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    torch.manual_seed(0)
    changed = {"model_type": "xlm-roberta", "vocab_size": tokenizer.get_vocab_size(), "pad_token_id": 1}
    config = AutoConfig.for_model(**TINY | changed | {"hidden_size": 32, "max_position_embeddings": 514})
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128}))
    return folder
