"""References between stacks: outputs of other stacks, and exports that other stacks import.

The two functions that mend change moto's classes in this process; `moto_cloudformation.REPAIRS` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Stack, cloudformation_backends

GET_STACK_OUTPUT, IMPORT_VALUE = "Fn::GetStackOutput", "Fn::ImportValue"


class ExportInUseError(Exception):
    """A refusal of CloudFormation, in its words."""


def read_stack_outputs() -> None:
    """Let templates read an output of another stack by `Fn::GetStackOutput`."""
    names = vars(parsing)  # where moto's own recursion looks for the function, too
    original = names["clean_json"]

    def clean_json(value: Any, resources: Any) -> Any:
        if isinstance(value, dict) and GET_STACK_OUTPUT in value:
            return _output(clean_json(value[GET_STACK_OUTPUT], resources), resources)
        return original(value, resources)

    names["clean_json"] = clean_json


def _output(wanted: Mapping[str, str], resources: Any) -> Any:
    region = wanted.get("Region", resources._region_name)
    for stack in cloudformation_backends[resources._account_id][region].stacks.values():
        if stack.name == wanted["StackName"] and wanted["OutputName"] in stack.output_map.outputs:
            output: Any = stack.output_map[wanted["OutputName"]]
            return output.value
    raise ValidationError(message=f"Stack {wanted['StackName']} has no output {wanted['OutputName']}")


def refuse_exports_in_use() -> None:
    """Refuse to delete or to change an export that another stack imports.

    A deletion is refused before anything changes. The new value of an export is known only after the stack's resources
    have changed, and they stay so here.
    """
    apply, update, delete_stack = ChangeSet.apply, Stack.update, CloudFormationBackend.delete_stack

    def guarded_apply(change_set: Any) -> None:
        stack = change_set.stack
        before = _exports(stack)
        if before:  # a new stack has none, nor the parameters that its exports' names may hold
            _refuse_deletion(stack, set(before) - _exported_by(change_set.template_dict, stack))
        old_template = stack.template
        apply(change_set)
        _refuse_change(stack, before, old_template)

    def guarded_update(stack: Any, template: str, *args: Any, **more: Any) -> None:
        before = _exports(stack)
        _refuse_deletion(stack, set(before) - _exported_by(stack.parse_template(template), stack))
        old_template = stack.template
        update(stack, template, *args, **more)
        _refuse_change(stack, before, old_template)

    def guarded_delete(backend: Any, name_or_stack_id: str) -> None:
        for stack in list(backend.stacks.values()):
            if name_or_stack_id in (stack.stack_id, stack.name):
                try:
                    _refuse_deletion(stack, set(_exports(stack)))
                except ExportInUseError as error:  # the stack keeps its status; the reason is in its events
                    stack._add_stack_event(stack.status, resource_status_reason=str(error))
                    return
        delete_stack(backend, name_or_stack_id)

    for owner, name, guarded in (
        (ChangeSet, "apply", guarded_apply),
        (Stack, "update", guarded_update),
        (CloudFormationBackend, "delete_stack", guarded_delete),
    ):
        setattr(owner, name, guarded)


def _backend(stack: Any) -> Any:
    return cloudformation_backends[stack.account_id][stack.region_name]


def _exports(stack: Any) -> dict[str, Any]:
    """Return the exports of a deployed stack: name -> value."""
    return {name: e.value for name, e in _backend(stack).exports.items() if e.exporting_stack_id == stack.stack_id}


def _exported_by(template: Mapping[str, Any], stack: Any) -> set[str]:
    outputs = (template.get("Outputs") or {}).values()
    return {parsing.clean_json(one["Export"]["Name"], stack.resource_map) for one in outputs if "Export" in one}


def _refuse_deletion(stack: Any, names: set[str]) -> None:
    for name in sorted(names):
        if importers := importing_stacks(stack, name):
            raise ExportInUseError(f"Export {name} cannot be deleted as it is in use by {importers}")


def _refuse_change(stack: Any, before: Mapping[str, Any], old_template: str) -> None:
    for export in stack.exports:
        if before.get(export.name, export.value) != export.value and (
            importers := importing_stacks(stack, export.name)
        ):
            stack.template = old_template
            raise ExportInUseError(f"Export {export.name} cannot be updated as it is in use by {importers}")


def importing_stacks(exporter: Any, export: str) -> str:
    """Return the names of the other stacks that import the export, as CloudFormation lists them."""
    others = [stack for stack in _backend(exporter).stacks.values() if stack.stack_id != exporter.stack_id]
    names = (
        stack.name
        for stack in others
        if any(parsing.clean_json(each, stack.resource_map) == export for each in _imports(stack.template_dict))
    )
    return ", ".join(sorted(names))


def _imports(value: Any) -> Iterator[Any]:
    """Yield the argument of each import in a template."""
    if isinstance(value, Mapping):
        if IMPORT_VALUE in value:
            yield value[IMPORT_VALUE]
        for inner in value.values():
            yield from _imports(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _imports(inner)
