"""Every sentence of a test set as a dot: how long it is beside its reference, and how good beside how sure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data.report.plot import Plot, ticks_between
from data.words import words_of
from transformer.evaluation.report.curves import HEIGHT, Picture
from transformer.evaluation.results import Sentence

Floats = npt.NDArray[np.float64]

_SIZES = ((1, 3.5), (3, 5.5), (10, 8.0), (10**9, 11.0))  # so many sentences in one place, at most: width of their dot
_SHARE_SHOWN = 0.995  # of the lengths: a few very long ones would press the others into a corner
_GROUPS = 10  # of equally many sentences, for the line of means
_FEWEST = 30  # sentences for which such means and a correlation say something


def lengths(sentences: Sequence[Sentence]) -> Picture | None:
    """Words of each translation beside those of its reference."""
    known = [sentence for sentence in sentences if sentence.references]
    if not known:
        return None
    references = words_of([sentence.references[0].replace("\n", " ") for sentence in known]).n_words
    hypotheses = words_of([sentence.hypothesis.replace("\n", " ") for sentence in known]).n_words
    longest = max(float(np.quantile(np.concatenate([references, hypotheses]), _SHARE_SHOWN, method="higher")), 4.0)
    shown = (references <= longest) & (hypotheses <= longest)
    ratio = float(hypotheses.sum() / references.sum()) if references.sum() else math.nan
    ends = (0.0, longest * 1.03)
    title = f"Lengths of translations and references, in words; {ratio:.3f} words to one of the reference"
    plot = Plot(title, ends, ends, height=HEIGHT)
    ticks = {tick: f"{tick:g}" for tick in ticks_between(*ends, 6)}
    plot.grid(ticks, ticks, "words of the reference", "words of the translation")
    plot.add("path", d=f"M{plot.x(0)} {plot.y(0)}L{plot.x(longest)} {plot.y(longest)}", class_="diagonal")
    _draw_dots(plot, references[shown], hypotheses[shown])
    hidden = int((~shown).sum())
    longer = f" {hidden:,} longer than {longest:g} words are not shown." if hidden else ""
    return Picture(
        "Lengths",
        plot.markup(),
        f"{ratio:.3f} words of the translations to one of the references. On the dashed line, both are equally "
        f"long.{longer}",
    )


def confidence(sentences: Sequence[Sentence]) -> Picture | None:
    """Sentence chrF of each translation beside the probability that the model gave its tokens."""
    known = [(s.log_prob_per_token, s.chrf) for s in sentences if s.log_prob_per_token is not None]
    if not known:
        return None
    probability = np.exp(np.array([log_prob for log_prob, _ in known], np.float64))
    chrf = np.array([figure for _, figure in known], np.float64)
    lowest = min(math.floor(float(probability.min()) * 10) / 10, 0.9)
    plot = Plot(
        "Sentence chrF of the translations by how sure the model was of them", (lowest, 1), (0, 100), height=HEIGHT
    )
    x_ticks = {tick: f"{tick:.2g}" for tick in ticks_between(lowest, 1)}
    y_ticks = {tick: f"{tick:g}" for tick in ticks_between(0, 100)}
    plot.grid(x_ticks, y_ticks, "probability of a token, geometric mean", "chrF of the sentence")
    _draw_dots(plot, probability, chrf)
    caption = "How good a translation is, beside how sure the model was of it."
    if len(known) >= _FEWEST and probability.std() and chrf.std():
        groups = np.array_split(np.argsort(probability, kind="stable"), _GROUPS)
        means = [(float(probability[group].mean()), float(chrf[group].mean())) for group in groups]
        plot.add("polyline", points=plot.points(*zip(*means, strict=True)), class_="line r1")
        together = float(np.corrcoef(probability, chrf)[0, 1])
        caption += f" The line joins the means of ten groups of equal size; the correlation is {together:.2f}."
    return Picture("Confidence", plot.markup(), caption)


def _draw_dots(plot: Plot, xs: Floats, ys: Floats) -> None:
    """A dot for each place, larger where there are several; a path, as elements of their own would be heavy."""
    places = Counter((round(plot.x(x)), round(plot.y(y))) for x, y in zip(xs, ys, strict=True))
    fewest = 1
    for most, width in _SIZES:
        if dots := "".join(f"M{x} {y}h0" for (x, y), n in sorted(places.items()) if fewest <= n <= most):
            plot.add("path", d=dots, class_="cloud", stroke_width=width)
        fewest = most + 1
