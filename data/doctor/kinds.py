"""Every kind of finding: how bad it is, what it is called, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from data.doctor.findings import Level


class Kind(NamedTuple):
    """`what` completes "N …"."""

    level: Level
    what: str
    remedy: str


KINDS = {
    "unreadable": Kind("error", "", "Mend what the message names, then check again"),
    "no_lines": Kind("error", "", "Take the corpus out of the config, or get its files again"),
    "encoding": Kind(
        "error",
        "lines that are not {encoding}",
        "Mend the lines; or, if all of the file is in another encoding, name it (encoding: latin-1) or convert it: "
        "iconv -f ISO-8859-1 -t UTF-8 FILE > NEW",
    ),
    "old_mac": Kind("error", "", "Convert the line ends: tr '\\r' '\\n' < FILE > NEW"),
    "line_counts": Kind(
        "error",
        "lines more on one side",
        "Line N of one must translate line N of the other: mend the places named here, or get both files again",
    ),
    "drift": Kind(
        "error",
        "places where the sides are out of step",
        "Look at the lines around the place; add the missing line or take out the extra one, on one side. Where that "
        "cannot be done, cut these lines from both sides",
    ),
    "swapped_corpus": Kind("error", "pairs are the other way round", "Swap src and tgt, or src_lang and tgt_lang"),
    "wrong_corpus_language": Kind(
        "error", "lines are in another language", "Check src_lang and tgt_lang, and that these are the right files"
    ),
    "unlike": Kind(
        "warning",
        "",
        "Look at some, and cut them if they are not translations; lists of names and free translation look so, too",
    ),
    "swapped": Kind("warning", "pairs are the other way round", "The filter `language` drops them"),
    "wrong_language": Kind("warning", "lines are in another language", "The filter `language` drops them"),
    "mojibake": Kind(
        "warning",
        "lines with UTF-8 that was once read as Latin-1 (Ã¤ for ä)",
        "Get the text before that happened, or turn it back: iconv -f UTF-8 -t CP1252 FILE > NEW, for such lines only",
    ),
    "replacement": Kind(
        "warning", "lines with U+FFFD, which stands for bytes lost in an earlier conversion", "Get the text from before"
    ),
    "nul": Kind("warning", "lines with NUL characters", "Take them out: tr -d '\\000' < FILE > NEW"),
    "control": Kind("warning", "lines with control characters", "Take them out, if they are not meant to be learnt"),
    "line_separators": Kind(
        "warning",
        "lines with characters that other programs take for the end of a line",
        "They are kept as text here; tools with another notion of a line will count others. Replace them by blanks",
    ),
    "empty": Kind("warning", "empty lines", "Such pairs are dropped in preparation. Many of them point to lost text"),
    "identical": Kind("warning", "pairs with the same text on both sides", "The filter `copied` drops them"),
    "duplicates": Kind("warning", "pairs that occurred before", "The filter `duplicates` drops them"),
    "boilerplate": Kind(
        "warning", "lines repeated more than {limit} times", "The filter `duplicates`, of src or tgt, keeps one of each"
    ),
    "length_ratio": Kind(
        "warning",
        "pairs with sides of very different length",
        "Look at some; the filter `ratio` drops them",
    ),
    "special_tokens": Kind(
        "warning",
        "lines with text that looks like a special token or a mark of subwords",
        "Encoded text never holds special ids, so it does no harm here; but text with ▁, @@ or ￭ was split into "
        "pieces before: get it as it was, since words are split here",
    ),
    "markup": Kind("warning", "lines with tags", "The filter `markup` drops them; or take the tags out"),
    "entities": Kind(
        "warning", "lines with entities (&amp;)", "Resolve them (Python: html.unescape), or use the filter `markup`"
    ),
    "roff": Kind("warning", "lines with formatting of manual pages", "The filter `markup` drops them; or take it out"),
    "tokenised": Kind(
        "warning",
        "lines where a blank was put before the punctuation",
        "Give the text as it was before tokenisation: words are split here, and output will look like what is learnt",
    ),
    "lower_cased": Kind("warning", "lines, and not one capital letter", "Give the text as it was before"),
    "accelerators": Kind("note", "lines with marks of menu keys (&File, Sa~ve)", "Take them out: they split words"),
    "long_lines": Kind(
        "note", "lines of more than {long} characters", "Longer than max_length pieces, they are dropped in preparation"
    ),
    "long_words": Kind("note", "lines with {long_word} characters without a blank", "Addresses and code teach little"),
    "invisible": Kind("note", "lines with invisible characters (zero width, direction, soft hyphen)", "Take them out"),
    "private_use": Kind("note", "lines with private or undefined characters", "What they mean depends on a font"),
    "tabs": Kind("note", "lines with tabs", "They are blanks here. If this is a table, give it as file: FILE"),
    "repeated_src": Kind("note", "source lines that occurred before", "Fine, unless there are many"),
    "repeated_tgt": Kind("note", "target lines that occurred before", "Fine, unless there are many"),
    "byte_order_mark": Kind("note", "", "Nothing to do: it is not part of the text"),
    "languages_unchecked": Kind("note", "", "Nothing to do"),
    "counts": Kind("note", "", ""),
}
