"""Writes tiny random models of every supported family and what `transformers` and `peft` compute with them.

    python packages/verlet/test/models/make-fixtures.py

Each folder under fixtures/ is a model folder as `save_pretrained` writes it, with `expected.safetensors` beside it. Weights are
larger than a fresh model's, so that a wrong mask or position shows in the fourth digit and not in the ninth.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

HERE = Path(__file__).parent / "fixtures"
VOCAB = 41
LENGTHS = [9, 1, 14, 5]
SHAPE = dict(
    vocab_size=VOCAB,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    bos_token_id=None,
    eos_token_id=0,
    pad_token_id=0,
    attention_dropout=0.0,
)
FAMILIES = {
    "qwen2": dict(model_type="qwen2", tie_word_embeddings=True),
    "qwen2-window": dict(
        model_type="qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1, tie_word_embeddings=False
    ),
    "qwen3": dict(model_type="qwen3", head_dim=8, tie_word_embeddings=True),
    "llama2": dict(model_type="llama", num_key_value_heads=4, tie_word_embeddings=False),
    "llama3": dict(
        model_type="llama",
        tie_word_embeddings=True,
        head_dim=8,
        rope_theta=500.0,
        rope_scaling=dict(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "llama-biases": dict(model_type="llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "qwen2-yarn": dict(
        model_type="qwen2",
        tie_word_embeddings=True,
        num_attention_heads=2,
        num_key_value_heads=1,
        rope_theta=100.0,
        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=8.0),
    ),
    "phi3": dict(model_type="phi3", sliding_window=6, tie_word_embeddings=False),
    "mistral": dict(model_type="mistral", sliding_window=5, tie_word_embeddings=False),
}


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.25 * noise)


def config_of(extra):
    return AutoConfig.for_model(**{**SHAPE, **extra})


def sequences(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, VOCAB, (length,), generator=generator) for length in LENGTHS]


def causal(name, extra, seed):
    model = AutoModelForCausalLM.from_config(config_of(extra), attn_implementation="eager", dtype=torch.float32).eval()
    randomize(model, seed)
    folder = HERE / name
    model.save_pretrained(folder)
    rows = sequences(seed)
    expected = {"input_ids": torch.cat(rows), "lengths": torch.tensor(LENGTHS)}
    logits = [model(row[None]).logits[0] for row in rows]
    expected["logits"] = torch.cat(logits).detach()
    # Sum of log-probabilities of the next tokens, each with a weight of its own.
    weights = torch.randn(sum(LENGTHS), generator=torch.Generator().manual_seed(seed + 1))
    expected["loss_weights"] = weights
    loss, at = 0, 0
    for row, own in zip(rows, logits):
        picked = own[:-1].log_softmax(-1).gather(1, row[1:, None])[:, 0]
        loss = loss + (picked * weights[at : at + len(row) - 1]).sum()
        at += len(row)
    loss.backward()
    for key, parameter in model.named_parameters():
        expected[f"grad.{key}"] = parameter.grad
    prompt = rows[0][None]
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=24, eos_token_id=None, pad_token_id=0)
    expected["greedy"] = made[0, prompt.shape[1] :]
    # Logits of the generated tokens from one pass without cache: what cached decoding has to equal.
    expected["greedy_logits"] = model(made).logits[0, prompt.shape[1] - 1 : -1].detach()
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    return model, rows


def adapters(name, seed, **options):
    from peft import LoraConfig, get_peft_model

    base = AutoModelForCausalLM.from_pretrained(HERE / name, attn_implementation="eager", dtype=torch.float32).eval()
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            if "lora_" in key:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    rows = sequences(seed)
    logits = [model(row[None]).logits[0] for row in rows]
    sum(own.logsumexp(-1).sum() for own in logits).backward()
    expected = {"input_ids": torch.cat(rows), "lengths": torch.tensor(LENGTHS), "logits": torch.cat(logits).detach()}
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            expected["grad." + key.removeprefix("base_model.model.").replace(".default", "")] = parameter.grad
    return model, expected


def lora(name, base, seed, **options):
    model, expected = adapters(base, seed, **options)
    folder = HERE / name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")


def reward(name, extra, seed):
    config = config_of(extra)
    config.num_labels = 1
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    randomize(model, seed)
    folder = HERE / name
    model.save_pretrained(folder)
    rows = sequences(seed)
    width = max(LENGTHS)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = row
        mask[k, : len(row)] = 1
    hidden = [model.model(row[None]).last_hidden_state[0] for row in rows]
    expected = {
        "input_ids": torch.cat(rows),
        "lengths": torch.tensor(LENGTHS),
        "scores": model(input_ids=ids, attention_mask=mask).logits[:, 0].detach(),
        "values": torch.cat([model.score(own)[:, 0] for own in hidden]).detach(),
    }
    save_file({key: value.contiguous() for key, value in expected.items()}, folder / "expected.safetensors")


if __name__ == "__main__":
    shutil.rmtree(HERE, ignore_errors=True)
    for k, (name, extra) in enumerate(FAMILIES.items()):
        causal(name, extra, 10 * k)
    lora("lora-all-linear", "qwen2", 101, r=3, lora_alpha=8, target_modules="all-linear")
    lora("lora-rslora", "llama2", 102, r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"])
    lora(
        "lora-pattern",
        "qwen3",
        103,
        r=2,
        lora_alpha=4,
        target_modules=r".*\.layers\.1\..*(k_proj|gate_proj|o_proj)",
        rank_pattern={"k_proj": 5},
        alpha_pattern={"gate_proj": 10},
    )
    reward("reward", FAMILIES["qwen2"], 200)
    for leftover in HERE.rglob("generation_config.json"):
        leftover.unlink()
