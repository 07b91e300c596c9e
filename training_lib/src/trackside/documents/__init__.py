"""SageMaker Debugger's own JSON and the names of its SDK, translated into contracts."""
