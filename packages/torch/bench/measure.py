"""Python's side of the bench; measure.mjs is the same in Node. Prints JSON: name -> best time of one call in microseconds."""
import json
import sys
import time

import torch
import torch.nn.functional as F

threads, clock = int(sys.argv[1]), sys.argv[2]
now = time.process_time_ns if clock == "cpu" else time.perf_counter_ns
times = {}


def measure(name, calls_per_round, rounds, body):
    for _ in range(calls_per_round * 3):
        body()
    best = float("inf")
    for _ in range(rounds):
        start = now()
        for _ in range(calls_per_round):
            body()
        best = min(best, (now() - start) / calls_per_round / 1000)
    times[name] = best


torch.set_num_threads(1)
a, b = torch.ones(4), torch.ones(4)
row, square = torch.ones(1, 16), torch.ones(16, 16)


def ten():
    for _ in range(10):
        torch.add(a, b)


measure("tiny add", 1000, 200, lambda: torch.add(a, b))
measure("tiny add in place", 1000, 200, lambda: a.add_(b))
measure("tiny add, ten in a scope", 100, 200, ten)
measure("tiny view", 1000, 200, lambda: a.unsqueeze(0))
measure("tiny linear", 1000, 200, lambda: F.linear(row, square))

torch.set_num_threads(threads)
big = torch.ones(1024, 1024)
measure("matmul 1024 fp32", 1, 20, lambda: big.mm(big))

layers, width, heads, hidden, vocabulary, batch, length = 4, 128, 4, 384, 512, 8, 128
parameters = {}


def parameter(name, *shape):
    numbers = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    numbers = (numbers * 12.9898 + len(parameters) * 78.233).sin().mul(43758.5453).remainder(1)
    parameters[name] = ((numbers - 0.5) * 0.1).float().reshape(shape).requires_grad_()


parameter("embedding", vocabulary, width)
parameter("position", length, width)
for layer in range(layers):
    parameter(f"{layer}.qkv", 3 * width, width)
    parameter(f"{layer}.out", width, width)
    parameter(f"{layer}.gate", 2 * hidden, width)
    parameter(f"{layer}.down", width, hidden)
parameter("head", vocabulary, width)

tokens = (torch.arange(batch * (length + 1)) * 7919 % vocabulary).reshape(batch, length + 1)
inputs, targets = tokens[:, :length], tokens[:, 1:].reshape(-1)
one = torch.ones(width)
p = parameters


def forward():
    x = F.embedding(inputs, p["embedding"]) + p["position"]
    for layer in range(layers):
        qkv = F.linear(F.rms_norm(x, (width,), one, 1e-6), p[f"{layer}.qkv"])
        q, k, v = qkv.view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(attended.transpose(1, 2).reshape(batch, length, width), p[f"{layer}.out"])
        gate, up = F.linear(F.rms_norm(x, (width,), one, 1e-6), p[f"{layer}.gate"]).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, p[f"{layer}.down"])
    logits = F.linear(F.rms_norm(x, (width,), one, 1e-6), p["head"])
    return F.cross_entropy(logits.view(-1, vocabulary), targets)


optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3, weight_decay=0.01, fused=True)


def step():
    loss = forward()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


for _ in range(5):
    loss = step()
measure("transformer train step", 1, 20, step)
with torch.no_grad():
    measure("transformer forward", 1, 20, lambda: forward().item())
print(json.dumps({"times": times, "loss": loss, "version": torch.__version__}))
