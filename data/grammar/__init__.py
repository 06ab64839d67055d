"""A small bilingual grammar, English → German, written for `make demo` and the tests.

`words` (kinds of words, closed classes), `lexicon` and `verbs` hold the vocabulary; `trees` what a sentence says before
either language says it; `english` and `german` say it; `speaker` and `clauses` draw trees by chance; `statements`,
`quantities`, `questions` and `compound_sentences` are the rules; `corpus` writes the files. The translation is a
function: every English sentence has exactly one German one ("you" is du, unless somebody else is addressed by name).
"""

from data.grammar.corpus import generate_pairs, write_corpus

__all__ = ["generate_pairs", "write_corpus"]
