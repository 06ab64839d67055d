"""The filters that a config can list under data.filters, and their settings. They run in `data.filters`."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from transformer.config_section import Count, CountOrZero, Section

Share = Annotated[float, Field(ge=0, le=1)]


class LengthFilter(Section):
    """Drops sides of too many words or characters, and with too long a word."""

    filter: Literal["length"] = "length"
    max_words: Count = Field(250, description="Words of a side, between white space.")
    max_characters: Count = Field(2000, description="Characters of a side.")
    max_word_characters: Count = Field(
        1000, description="Characters between white space; where the script has none, of a sentence."
    )


class RatioFilter(Section):
    """Drops pairs of which one side is much longer than the other."""

    filter: Literal["ratio"] = "ratio"
    max_ratio: float = Field(
        3.0,
        ge=1,
        le=1000,
        description="Longer side / shorter side, in characters + 15; a character of Chinese, Japanese or Korean is 3.",
    )


class GarbageFilter(Section):
    """Drops control characters, and lines of signs opposite lines of letters."""

    filter: Literal["garbage"] = "garbage"
    max_letter_difference: Share = Field(0.35, description="Between the sides' shares of letters among characters.")
    min_characters: Count = Field(20, description="Sides shorter than this are not compared.")


class MojibakeFilter(Section):
    """Drops text that was decoded with the wrong encoding, such as fÃ¼r."""

    filter: Literal["mojibake"] = "mojibake"


class ScriptFilter(Section):
    """Drops sides in another script than their language's; Latin passes everywhere."""

    filter: Literal["script"] = "script"
    min_share: Share = Field(0.5, description="Least share of letters in the language's own scripts.")
    min_letters: Count = Field(5, description="Sides with fewer letters outside ASCII pass.")


class LanguageFilter(Section):
    """Drops sides in another language, and pairs whose sides are swapped."""

    filter: Literal["language"] = "language"
    model: Literal["py3langid", "lingua"] = Field(
        "py3langid", description="lingua is better and slower: pip install lingua-language-detector."
    )
    margin: float = Field(
        0.85,
        ge=0,
        le=1000,
        description="How far another language must be ahead: difference of log-likelihoods / √bytes.",
    )
    min_letters: Count = Field(4, description="Pairs with fewer letters on a side pass.")


class CopiedFilter(Section):
    """Drops pairs whose sides are the same, if they hold words of the source language rather than names or code."""

    filter: Literal["copied"] = "copied"
    min_lead: float = Field(
        -1.2,
        ge=-1000,
        le=1000,
        description="How far the source language must be ahead; -1000 drops all copies that have words.",
    )


class ConcatenatedFilter(Section):
    """Drops pairs that seem to be many segments in one line."""

    filter: Literal["concatenated"] = "concatenated"
    max_segments: Count = Field(11, description="Sentences, headings or entries, counted by how they begin.")


class RepeatsFilter(Section):
    """Drops pairs of which one side repeats itself and the other does not."""

    filter: Literal["repeats"] = "repeats"
    max_repeats: Count = Field(2, description="How often the same words may come in a row.")
    min_share: Share = Field(0.5, description="Shorter repetitions, as a share of the side's words, do not count.")


class NumbersFilter(Section):
    """Drops pairs whose numbers differ; numbers of one digit, often written as words, are not compared."""

    filter: Literal["numbers"] = "numbers"
    max_missing: CountOrZero = Field(0, description="How many numbers may be on one side only.")


class MarkupFilter(Section):
    """Drops pairs of which one side has tags, entities or roff requests that the other has not."""

    filter: Literal["markup"] = "markup"
    max_difference: CountOrZero = Field(2, description="How many more one side may have.")


class ScoreFilter(Section):
    """Drops pairs whose score in the file (ParaCrawl, Bicleaner; score_column of the corpus) is low or missing."""

    filter: Literal["score"] = "score"
    at_least: float = Field(ge=-(10**9), le=10**9, description="Lowest score kept.")


class DuplicatesFilter(Section):
    """Drops all but the first of the pairs that are the same."""

    filter: Literal["duplicates"] = "duplicates"
    of: Literal["pair", "src", "tgt"] = Field("pair", description="What must be the same.")
    normalised: bool = Field(False, description="Compare without case, punctuation, width and accents' encoding.")


class WordTranslationFilter(Section):
    """Drops pairs whose words do not translate each other, by a model (IBM 1) learnt on the corpus itself."""

    filter: Literal["word_translation"] = "word_translation"
    at_least: float = Field(0.0, ge=-1000, le=1000, description="Lowest evidence kept, in nats; below 0: against.")
    window: CountOrZero = Field(5, description="Neighbours on either side whose evidence counts too; 0: none.")


FilterSettings = Annotated[
    LengthFilter
    | RatioFilter
    | GarbageFilter
    | MojibakeFilter
    | ScriptFilter
    | LanguageFilter
    | CopiedFilter
    | ConcatenatedFilter
    | RepeatsFilter
    | NumbersFilter
    | MarkupFilter
    | ScoreFilter
    | DuplicatesFilter
    | WordTranslationFilter,
    Field(discriminator="filter"),
]

FILTERS: dict[str, type[Section]] = {
    kind.model_fields["filter"].default: kind for kind in get_args(get_args(FilterSettings)[0])
}
"""Name in the config → its settings."""

DEFAULT_FILTERS: tuple[FilterSettings, ...] = (
    LengthFilter(),
    RatioFilter(),
    MojibakeFilter(),
    GarbageFilter(),
    ScriptFilter(),
    ConcatenatedFilter(),
    RepeatsFilter(),
    CopiedFilter(),
    LanguageFilter(),
    DuplicatesFilter(),
)


def default_filters() -> list[FilterSettings]:
    """Return what is filtered where a config says nothing."""
    return list(DEFAULT_FILTERS)
