"""The one kind of error that a user can mend."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line that says what is wrong, where, and how to mend it. The command line prints it
    without a traceback and exits with status 2; from Python it is an ordinary `ValueError`.
    """
