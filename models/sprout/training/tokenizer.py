"""Trains the byte-level BPE on generated text and writes tokenizer.json and tokenizer_config.json.

The frames of a tool list in JSON are tokens of their own, which halves a prompt with tools. Elsewhere letters, digits and everything else never share a token, a space included: a word has the same tokens after a space, a quote
or an underscore, which makes copying easy to learn. Digits stay single.
"""

import json
import re
import sys
from itertools import islice
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from data.mix import render, stream, written

MODEL = Path(__file__).resolve().parents[1]
VOCAB = 1536
FRAMES = ['{"type": "function", "function": {"name": "', '", "description": "', '", "parameters": {"type": "object", "properties": {"',
          '": {"type": "', '"}}, "required": ["', '{"name": "', '", "arguments": {"']
SPLIT = "|".join(re.escape(f).replace("\\ ", " ") for f in FRAMES) + r"|[\p{L}\p{M}]+|\p{N}|\n+|[^\p{L}\p{M}\p{N}\n]+"
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
           "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
TEXT = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
        "<tool_response>", "</tool_response>", "<think>", "</think>"]


def train(samples: int = 40000, seed="tokenizer") -> Tokenizer:
    """A tokenizer of exactly ``VOCAB`` entries, the special ones last, as in Qwen3's."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    special = CONTROL + TEXT

    def texts():
        for s in islice(stream(seed), samples):
            text = render(s) + written(s)
            for token in special:
                text = text.replace(token, "\n")
            yield text
    t.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=VOCAB - len(special), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(c, special=True, normalized=False) for c in CONTROL])
    t.add_tokens([AddedToken(c, special=False, normalized=False) for c in TEXT])
    if t.get_vocab_size() != VOCAB:
        raise SystemExit(f"the tokenizer has {t.get_vocab_size()} entries, expected {VOCAB}")
    return t


CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
          "model_max_length": 2048, "add_prefix_space": False, "clean_up_tokenization_spaces": False}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL
    train().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
