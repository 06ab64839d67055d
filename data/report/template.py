"""Pages are jinja2 templates: all text is escaped, and a name that is not given is an error."""

from __future__ import annotations

from functools import cache

import jinja2

from data.report.findings import percent
from data.report.visible import plain, shown


@cache
def load_template(name: str, *packages: str) -> jinja2.Template:
    """The template of that name in the first of these packages that has it; it may include files of any of them."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, ".") for package in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "plain": lambda text: plain(str(text)), "number": "{:,}".format}
    environment.globals["percent"] = percent
    return environment.get_template(name)
