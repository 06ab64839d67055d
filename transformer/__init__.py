"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) and everything that runs it.

The network itself is in `masks`, `attention`, `layers`, `embeddings`, `encoder`, `decoder` and `model`, to be read in
that order beside the paper. Shape letters, used in every comment and docstring of this repository:

    B  sentences            D  d_model              V  vocabulary size
    S  source positions     H  heads                W  beam width
    T  target positions     K  d_head

Masks are boolean and True means "may attend", everywhere.
"""
