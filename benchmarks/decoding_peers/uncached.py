"""The search of the seed repository, on our network: one sentence at a time, the whole prefix again at every step."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.decoding_peers.task import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Decoded, Peer, Task, n_pieces, serve
from transformer.masks import padding_mask
from transformer.model import Transformer
from transformer.model_directory import load_model


def load(task: Task, options: dict[str, Any]) -> Peer:
    """`threads` of the options is all there is."""
    torch.set_num_threads(options["threads"])
    network = load_model(task.folder / "model").network

    def decode(part: Task, _: int) -> Decoded:
        outputs = [search(network, source, part) for source in part.sentences]
        return Decoded(outputs, sum(n_pieces(output, part) for output in outputs))

    return Peer(f"torch {torch.__version__}", decode)


@torch.inference_mode()
def search(network: Transformer, source: list[int], task: Task) -> list[int]:
    """The hypothesis of the best mean log-probability among the first `beam_size` that end; ids without </s>."""
    src = torch.tensor([[*source, EOS_ID]])
    src_mask = padding_mask(src, PAD_ID)
    memory = network.encode(src, src_mask)
    live, log_probs = torch.tensor([[BOS_ID]]), torch.zeros(1)
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, (task.length or task.limit) + 1):
        n = len(live)
        hidden = network.decode(live, memory.expand(n, -1, -1), src_mask.expand(n, -1, -1, -1))
        sums = log_probs[:, None] + network.project(hidden[:, -1]).log_softmax(-1)
        sums[:, [PAD_ID, BOS_ID, UNK_ID, *([EOS_ID] if length < (task.length or 0) else [])]] = -torch.inf
        best, places = sums.flatten().topk(2 * task.beam_size)
        beams, tokens = places // sums.shape[1], places % sums.shape[1]
        ends = tokens == EOS_ID
        for i in ends[: task.beam_size].nonzero().flatten().tolist():
            finished.append((float(best[i]) / length, live[beams[i], 1:].tolist()))
        if len(finished) >= task.beam_size:
            break
        going_on = (~ends).nonzero().flatten()[: task.beam_size]
        live = torch.cat([live[beams[going_on]], tokens[going_on, None]], 1)
        log_probs = best[going_on]
    else:
        finished += zip((log_probs / length).tolist(), live[:, 1:].tolist(), strict=True)
    return max(finished)[1]


if __name__ == "__main__":
    serve(load)
