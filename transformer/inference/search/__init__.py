"""The search: from a step function to hypotheses. It knows ids and tensors and no text.

`beam_search` is the loop; `search_state` what it knows between two calls; `best` finds the best continuations. What
else can be asked of a search are small parts of their own: `restrictions` (what may follow what), `required_phrases`,
`sampling` and `diversity` (other ways to choose), `ensemble` (several steps as one), `length_penalty`, `bayes_risk`.
"""
