"""The one error of this package that a user can cause."""


class DataError(Exception):
    """Text, vocabulary or prepared data cannot be used. The message names file, line, value, rule and remedy."""

    exit_code = 1
