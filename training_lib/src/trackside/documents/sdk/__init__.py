"""The classes of `sagemaker.debugger`. Users import them from `trackside.sagemaker`."""
