"""The errors of smdebug. Constructor arguments are kept as attributes of the same name."""

from __future__ import annotations

from smdebug import not_offered
from smdebug.core.modes import ModeKeys


class SMDebugError(Exception):
    """Any error of smdebug."""


class SMDebugCustomerError(SMDebugError):
    """A wrong use of smdebug."""


class SMDebugTypeError(SMDebugError, TypeError):
    """An argument of the wrong type."""


class SMDebugRuntimeError(SMDebugError, RuntimeError):
    """The request cannot be carried out now."""


class SMDebugNotImplementedError(SMDebugError, NotImplementedError):
    """The requested feature does not exist."""


class SMDebugValueError(SMDebugError, ValueError):
    """An argument of the right type and an impossible value."""


class InvalidCollectionConfiguration(SMDebugError):
    """A collection that could never hold a tensor."""

    def __init__(self, c_name: str) -> None:
        super().__init__(c_name)
        self.c_name = c_name

    def __str__(self) -> str:
        return f"Collection {self.c_name} has not been configured. Please fill in tensor_names or include_regex"


class StepNotYetAvailable(SMDebugError):
    """The run may still reach this step."""

    def __init__(self, step: int, mode: ModeKeys) -> None:
        super().__init__(step, mode)
        self.step, self.mode = step, mode

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} not yet available"


class StepUnavailable(SMDebugError):
    """The run has passed this step and did not save it."""

    def __init__(self, step: int, mode: ModeKeys) -> None:
        super().__init__(step, mode)
        self.step, self.mode = step, mode

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} is not available as it was not saved"


class TensorUnavailableForStep(SMDebugError):
    """The step was saved, this tensor's value was not."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL, has_reductions: bool = False) -> None:
        super().__init__(tname, step, mode, has_reductions)
        self.tname, self.step, self.mode, self.has_reductions = tname, step, mode, has_reductions

    def __str__(self) -> str:
        what = (
            f"Value for tensor {self.tname} is not available for step {self.step} "
            f"with mode {self.mode.name} as it was not saved."
        )
        return f"{what} Its reductions were: ask for `reduction_value`." if self.has_reductions else what


class ShapeUnavailableForStep(SMDebugError):
    """The step was saved, neither this tensor's shape nor its value was."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        super().__init__(tname, step, mode)
        self.tname, self.step, self.mode = tname, step, mode

    def __str__(self) -> str:
        return (
            f"Shape for tensor {self.tname} is not available for step {self.step} "
            f"with mode {self.mode.name} as it was not saved."
        )


class TensorUnavailable(SMDebugError):
    """No step so far holds this tensor."""

    def __init__(self, tname: str) -> None:
        super().__init__(tname)
        self.tname = tname

    def __str__(self) -> str:
        return f"Tensor {self.tname} was not saved."


class InvalidWorker(SMDebugError):
    """That worker did not save this tensor at this step."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"Invalid Worker: {self.worker}"


class MissingCollectionFiles(SMDebugError):
    """The run has ended, and a worker has not stored its collections."""

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return "Training job has ended. All the collection files could not be loaded"


class IndexReaderException(SMDebugError):
    """A file is no index file."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class NoMoreData(SMDebugError):
    """The run has ended before this step: the normal end of a rule."""

    def __init__(self, step: int, mode: ModeKeys, last_step: int) -> None:
        super().__init__(step, mode, last_step)
        self.step, self.mode, self.last_step = step, mode, last_step
        self.msg = (
            f"Looking for step {step} of mode {mode.name} and reached end of training. "
            f"Max step available is {last_step}"
        )

    def __str__(self) -> str:
        return self.msg


class NoMoreProfilerData(SMDebugError):
    """The run has ended before this time."""

    def __init__(self, timestamp: float) -> None:
        super().__init__(timestamp)
        self.timestamp = timestamp
        self.msg = f"Looking for timestamp {timestamp} and reached end of training."

    def __str__(self) -> str:
        return self.msg


class RuleEvaluationConditionMet(SMDebugError):
    """A rule has fired."""

    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        super().__init__(rule_name, step, end_of_rule)
        self.rule_name, self.step, self.end_of_rule = rule_name, step, end_of_rule

    def __str__(self) -> str:
        return f"Evaluation of the rule {self.rule_name} at step {self.step} resulted in the condition being met"


class InsufficientInformationForRuleInvocation(SMDebugError):
    """A rule lacks data that it needs to judge."""

    def __init__(self, rule_name: str, message: str) -> None:
        super().__init__(rule_name, message)
        self.rule_name, self.message = rule_name, message

    def __str__(self) -> str:
        return f"Insufficient information to invoke rule {self.rule_name}: {self.message}"


__getattr__ = not_offered.attribute_of(__name__)
