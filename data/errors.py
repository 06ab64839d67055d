"""The one error of this package that a user can cause."""


class DataError(Exception):
    """Text, vocabulary or prepared data cannot be used. The message names file, line, value, rule and remedy."""

    exit_code = 1

    def __init__(self, message: str, *, about_text: bool = True) -> None:
        super().__init__(message)
        self.about_text = about_text  # False: nothing is wrong with the text, and what was made of it can be kept
