"""Writes config.json and model.safetensors from a checkpoint: bf16, exactly ternary rows, Hugging Face names.

    python export.py --run /tmp/sprout [--to ..]
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from model import TERNARY, Config, Sprout
from quantise import is_ternary
from tokenizer import MODEL, TEXT, CONTROL


def named(model: Sprout) -> dict:
    """Tensors under the checkpoint's names."""
    w = {n: v.detach().to(torch.bfloat16) for n, v in model.quantised().items()}
    for n in TERNARY:
        if not is_ternary(w[n]):
            raise SystemExit(f"{n} has a row that is not ternary")
    out = {"model.word_embeddings.weight": w["embedding"], "model.norm.weight": w["final_norm"]}
    for l in range(len(model.config.layer_types)):
        p = f"model.layers.{l}."
        out[p + "input_layernorm.weight"] = w["norm1"][l]
        out[p + "post_attention_layernorm.weight"] = w["norm2"][l]
        out[p + "self_attn.q_norm.weight"], out[p + "self_attn.k_norm.weight"] = w["q_norm"][l], w["k_norm"][l]
        for n in "qkvo":
            out[f"{p}self_attn.{n}_proj.weight"] = w["w" + n][l]
        out[p + "mlp.gate.weight"] = w["router"][l]
        for e in range(model.config.num_experts):
            for n in ("gate", "up", "down"):
                out[f"{p}mlp.experts.{e}.{n}_proj.weight"] = w[n][l, e]
    return {n: t.contiguous() for n, t in out.items()}


def config_json(c: Config) -> dict:
    ids = {t: c.vocab_size - len(CONTROL) - len(TEXT) + i for i, t in enumerate(CONTROL + TEXT)}
    return {
        "architectures": ["MapleForCausalLM"], "model_type": "maple", "hidden_act": "silu",
        "hidden_size": c.hidden_size, "num_hidden_layers": len(c.layer_types),
        "num_attention_heads": c.num_attention_heads, "num_key_value_heads": c.num_key_value_heads, "head_dim": c.head_dim,
        "num_experts": c.num_experts, "num_experts_per_tok": c.num_experts_per_tok, "num_shared_experts": 0, "first_k_dense_replace": 0,
        "moe_intermediate_size": c.moe_intermediate_size, "vocab_size": c.vocab_size,
        "layer_types": c.layer_types, "sliding_window": c.sliding_window, "nope_on_global_attention": True,
        "rope_theta": c.rope_theta, "partial_rotary_factor": c.partial_rotary_factor, "rope_scaling": None,
        "rms_norm_eps": c.rms_norm_eps, "norm_topk_prob": True, "use_qk_norm": True, "use_bias": False, "tie_word_embeddings": True,
        "max_position_embeddings": c.max_position_embeddings,
        "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"], "pad_token_id": None,
        "router_dtype": "fp32", "quantize": True, "preaffine": False, "use_cache": True, "dtype": "bfloat16",
    }


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", type=Path, required=True)
    a.add_argument("--to", type=Path, default=MODEL)
    o = a.parse_args()
    saved = torch.load(o.run / "checkpoint.pt")
    model = Sprout(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    o.to.mkdir(parents=True, exist_ok=True)
    save_file(named(model), o.to / "model.safetensors", metadata={"format": "pt"})
    (o.to / "config.json").write_text(json.dumps(config_json(model.config), indent=2) + "\n")
    print(f"step {saved['step']}, {saved['tokens'] / 1e6:.1f} M tokens")


if __name__ == "__main__":
    main()
