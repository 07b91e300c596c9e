"""The groups of a deployment's settings, each beside its checks. `stacks.deployment_settings` composes them."""
