"""The two ways in which a user can be wrong; scripts turn them into one message and an exit code, never a traceback."""


class ConfigError(Exception):
    """Settings or usage are wrong. The message names file, line, key, value, rule and remedy; may hold several."""

    exit_code = 2


class RunError(Exception):
    """A run, model or checkpoint on disk cannot be used, or work on it failed. The message says what to do next."""

    exit_code = 1
