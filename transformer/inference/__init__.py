"""From a trained network to text.

`translator` puts the search between lines in and lines out: `requests` says what is asked of a line, `translation` what
comes out, `batch_search` sets up the search of a batch, `workers` runs batches side by side. `search` finds hypotheses,
`scoring` reads given ones, `command` is what `translate.py` is made of. `export` writes models for other programs, and
`ctranslate2_translator` runs some of them. Nothing here knows how a network is trained.
"""
