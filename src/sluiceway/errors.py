"""What goes wrong, by who can mend it.

SluicewayError
├── SettingsError   the user's mistake: one sentence, exit code 2
└── FlowError       the world's: a broker, a topic, a store; one sentence, exit code 1
"""


class SluicewayError(Exception):
    """Root of every error that is shown to a person as one sentence, without a traceback."""


class SettingsError(SluicewayError):
    """A setting, an argument or a choice of files that cannot work as given."""


class FlowError(SluicewayError):
    """A flow that cannot start or go on, with the reason and what to do."""
