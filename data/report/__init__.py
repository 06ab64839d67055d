"""What preprocess.py tells about the data it made, from the manifest alone.

    page.py        `save_page`: report.html, one file without network, script or foreign font
    funnel.py      what was read and kept of each corpus
    terminal.py    `describe`: the table after a run
    findings.py    what deserves a look, in sentences; the same on the page and in the terminal
    drawing.py     the page's pictures
    plot.py        axes for them, as SVG that follows light and dark mode
    template.py    pages from templates
    visible.py     text of corpora made harmless: it may hold HTML, controls, and marks that turn lines round

Any part of the manifest may be missing or empty; what would be told of it is then left out. The report on a run, in
transformer/evaluation/report, looks the same and shows the same funnel.
"""

from data.report.page import save_page
from data.report.terminal import describe

__all__ = ["describe", "save_page"]
