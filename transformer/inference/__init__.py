"""From a trained network to text: length penalties, beam search, forced scoring, the translator.

`beam_search` knows no network: it is given a step function. `cached_step` makes one out of a Transformer, `translator`
puts both between lines in and lines out. Nothing here knows how a network is trained.
"""
