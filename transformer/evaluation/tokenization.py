"""How text is cut into words before words are counted: by the target language, through sacrebleu."""

from __future__ import annotations

import difflib
import logging
from pathlib import Path

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from data.filters.filter import primary
from data.filters.language_scores import known_languages
from transformer.errors import ConfigError, RunError

DEFAULT = "13a"
OF_LANGUAGES = {"zh": "zh", "yue": "zh", "wuu": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
WITHOUT_BLANKS = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"})
"""Languages that put no blanks between words: 13a takes whole clauses for words, and lengths are in characters."""

TOKENIZERS = ("13a", "zh", "ja-mecab", "ko-mecab", "intl", "char", "flores101", "flores200", "spBLEU-1K", "none")
_EXTRAS = {"ja-mecab": ("Japanese", "ja"), "ko-mecab": ("Korean", "ko")}


def choose_tokenizer(language: str) -> str:
    """The tokeniser that BLEU has for a target language; 13a (mteval-v13a.pl) for all that part words with blanks."""
    return OF_LANGUAGES.get(primary(language), DEFAULT)


def tokenizer_at_hand(language: str) -> str:
    """The same, or single characters where the package that it needs is missing: what training shows must not fail."""
    tokenizer = choose_tokenizer(language)
    if tokenizer not in _EXTRAS:
        return tokenizer
    try:
        load_bleu(tokenizer)
    except ConfigError:
        return "char"
    return tokenizer


def doubts(language: str, tokenizer: str) -> str:
    """What there is to say against a tokeniser for a target language; empty if nothing."""
    code = primary(language)
    if tokenizer in (DEFAULT, "intl", "none") and code in WITHOUT_BLANKS:
        return (
            f"{tokenizer} cuts words at blanks, and {code} has none: BLEU counts whole clauses. Read chrF, or give "
            "--tokenize flores200"
        )
    if tokenizer == DEFAULT and code == "any":
        return "the target language is not known: BLEU cuts words at blanks (13a); --languages SRC-TGT tells it"
    if tokenizer == DEFAULT and code not in known_languages():
        return f"{language!r} is no language code known here: BLEU cuts words at blanks (13a)"
    return ""


def load_metrics(tokenizer: str, language: str) -> dict[str, Metric]:
    """BLEU (Papineni et al. 2002), chrF2 (Popović 2015), chrF2++ (Popović 2017) and TER (Snover et al. 2006).

    BLEU is never of the effective order. TER counts Chinese and Japanese by characters, as Tercom can; anything else
    by words. The keys are those of `results.METRICS`.

    Raises:
        ConfigError: no such tokeniser, or a package that it needs is missing.
        RunError: a tokeniser's model cannot be downloaded.
    """
    by_characters = primary(language) in ("zh", "yue", "wuu", "ja")
    return {
        "bleu": load_bleu(tokenizer),
        "chrf": CHRF(),
        "chrf++": CHRF(word_order=2),
        "ter": TER(normalized=by_characters, asian_support=by_characters),
    }


def load_bleu(tokenizer: str) -> BLEU:
    """BLEU on words that this tokeniser finds. Raises as `load_metrics`."""
    if tokenizer not in TOKENIZERS:
        near = difflib.get_close_matches(tokenizer, TOKENIZERS, 1)
        hint = f", did you mean {near[0]}?" if near else "."
        raise ConfigError(f"--tokenize {tokenizer}: no such tokeniser{hint} There are {', '.join(TOKENIZERS)}")
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what it has to say comes as an exception, too
    try:
        return BLEU(tokenize=tokenizer, effective_order=False, force=True)
    except (Exception, SystemExit) as error:  # network, disk, packages: anything
        if tokenizer in _EXTRAS:
            name, extra = _EXTRAS[tokenizer]
            raise ConfigError(
                f"BLEU of {name} needs the tokeniser {tokenizer}: run `pip install 'sacrebleu[{extra}]'`, or give "
                "another, such as --tokenize char"
            ) from error
        raise RunError(
            f"--tokenize {tokenizer}: its model cannot be downloaded: {_reason(error)}. Check the network; or run once "
            f"where there is one and copy {_models()} from there"
        ) from error
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or error).strip().split("\n")[0] or type(error).__name__


def _models() -> Path:
    from sacrebleu.utils import SACREBLEU_DIR

    return Path(SACREBLEU_DIR, "models")
