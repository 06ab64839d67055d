"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) and everything that runs it.

The network itself is in `masks`, `attention`, `layers`, `embeddings`, `encoder`, `decoder` and `model`, to be read in
that order beside the paper. Shape letters, used in every comment and docstring of this repository:

    B  sentences            D  d_model              V  vocabulary size
    S  source positions     H  heads                W  beam width
    T  target positions     K  d_head

Masks are boolean and True means "may attend", everywhere.
"""

import os

# A thread of GNU OpenMP (PyTorch's on Linux) that waits for the others stays awake for 300,000 rounds, milliseconds, on
# a core that another program may need, hundreds of times per update. Fewer, set before PyTorch is loaded, make training
# 1.7 times as fast beside a busy program, and cost some 2 % on a free machine (benchmarks/busy_machine.py).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
